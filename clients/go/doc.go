// Package hustings elects a leader among the replicas of a program, by a Kubernetes Lease.
//
// It runs the elector of Hustings, which is a WebAssembly module, and brings a loop, connections and a clock. So it has the
// guarantees of the Rust library: no two replicas lead at once, whatever their clocks, the network or a third party do.
// docs/protocol.md has the protocol, and ARCHITECTURE.md the invariants and their premises.
//
//	elector, err := hustings.New(config, "default", "my-component", hustings.Options{})
//	err = elector.Run(ctx, func(ctx context.Context, term *hustings.Term) {
//		work(ctx, term.Token) // until the context is done
//	})
//
// [Elector.IsLeader] tells any part of the program whether this process leads now. A [Gate] lets the writes of a client pass
// only while it does. [Term.Token] fences writes.
//
// Without [Options.BinaryVersion], the elector is in direct mode: it claims the Lease when it finds it free, as client-go
// does, and may share the Lease with replicas on client-go. With it, Hustings' controller elects by version.
//
// Two other packages have the interfaces that programs use already:
//   - hustings.io/go/leaderelection has the names of client-go's package, such as RunOrDie;
//   - hustings.io/go/ctrl is for managers of controller-runtime.
//
// # If the elector fails
//
// However the elector ends, by a stop, a trap of the module or a panic, this process never leads again, and the validity of
// its last term ends by the clock. Only a graceful end releases the Lease. Use [Elector.Check] as a health check.
//
// # Permissions
//
// In the namespace of the Lease: get, list, watch, create and patch on leases of coordination.k8s.io. With
// [Options.BinaryVersion], also get, list, watch, create, patch and delete on leasecandidates of hustings.io. With
// [Options.Events], create on events of events.k8s.io.
package hustings
