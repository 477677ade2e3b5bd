// Package hustings lets programs in Go stand for election through Hustings, a leader-election system for Kubernetes. It
// runs the elector of Hustings' Rust library, compiled to WebAssembly, and brings connections, clocks and goroutines.
//
//	elector, err := hustings.New(config, "default", "my-component", hustings.Options{})
//	err = elector.Run(ctx, func(ctx context.Context, term *hustings.Term) {
//		work(ctx, term.Token)
//	})
//
// [Elector.Run] calls the function once in each term. [Elector.IsLeader] is true only while no other replica can lead,
// also in a process that was frozen. An [Elector] is in direct mode, as client-go's, or, with [Options.BinaryVersion], a
// candidate among which a controller elects by version.
//
//   - [Elector.Token] has a number by which others reject late writes of earlier leaders.
//   - [Elector.Gate] makes a client that writes only while this process leads.
//   - [Elector.Contains] tells whether an instant belongs to this process.
//   - [Metrics] has the metrics of all electors of the process.
//
// Programs that call client-go's RunOrDie change one import line with the package leaderelection of this module. Managers
// of controller-runtime use its package ctrl.
//
// # Premises
//
// The promise rests on the clock CLOCK_BOOTTIME of Linux, which counts the time of a suspension. On other systems the
// package compiles, for development only. A hypervisor that pauses the whole machine stops that clock as well: see
// docs/fencing.md.
package hustings
