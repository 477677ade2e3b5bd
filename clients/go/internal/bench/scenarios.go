package main

import (
	"slices"
	"syscall"
	"time"
)

// crash kills the leader of all Leases without evidence: the others wait for the expiry.
func (b *bench) crash(kind kind) error {
	g, err := b.startGroup(kind, "")
	if err != nil {
		return err
	}
	defer g.kill()
	at := now()
	g[0].signal(syscall.SIGKILL)
	taken, err := first("another replica leads after a crash", leads, b.leases, at, g.others()...)
	for _, instant := range taken {
		b.add("crash: seconds without a leader", kind, instant-at)
	}
	return err
}

// stop stops the leader of all Leases by SIGTERM.
func (b *bench) stop(kind kind) error {
	g, err := b.startGroup(kind, "")
	if err != nil {
		return err
	}
	defer g.kill()
	at := now()
	g[0].signal(syscall.SIGTERM)
	taken, err := first("another replica leads after a stop", leads, b.leases, at, g.others()...)
	if err != nil {
		return err
	}
	given, err := first("the leader stops", rests, b.leases, 0, g[0])
	for lease, instant := range given {
		b.add("graceful stop: seconds without a leader", kind, taken[lease]-instant)
	}
	return err
}

// join lets replicas of an older version join, a process for so many Leases at once. A controller elects them.
func (b *bench) join(kind kind) error {
	if kind == clientGo {
		return nil // they never lead
	}
	controller, err := b.startController()
	if err != nil {
		return err
	}
	defer func() {
		_ = controller.Process.Kill()
		_ = controller.Wait()
	}()
	g, err := b.startGroup(kind, "1.2.0")
	if err != nil {
		return err
	}
	defer func() { g.leave() }()
	former := g
	var taken []int64
	for joining := range slices.Chunk(b.names(), b.together) {
		older, err := start(b.replica(kind, len(g), "1.1.0", joining))
		if err != nil {
			return err
		}
		g = append(g, older)
		led, err := first("the older version leads", leads, len(joining), 0, older)
		if err != nil {
			return err
		}
		began := older.find(runs, 0)[0].At
		for _, instant := range led {
			b.add("an older version joins: seconds until it leads", kind, instant-began)
		}
		taken = append(taken, led...)
	}
	given, err := first("the newer version stops", rests, b.leases, 0, former...)
	for lease, instant := range given {
		b.add("of that, seconds without a leader", kind, taken[lease]-instant)
	}
	return err
}

// thaw freezes the leader of all Leases for 25 s. Then both it and its successor are awake.
func (b *bench) thaw(kind kind) error {
	g, err := b.startGroup(kind, "")
	if err != nil {
		return err
	}
	defer g.kill()
	at := now()
	g[0].signal(syscall.SIGSTOP)
	defer g[0].signal(syscall.SIGCONT)
	if _, err := first("another replica leads after a freeze", leads, b.leases, at, g.others()...); err != nil {
		return err
	}
	time.Sleep(time.Duration(at+25_000_000-now()) * time.Microsecond)
	at = now()
	g[0].signal(syscall.SIGCONT)
	given, err := first("the thawed replica stops", rests, b.leases, 0, g[0])
	for _, instant := range given {
		b.add("thawed after 25 s: seconds with two leaders", kind, max(instant-at, 0))
	}
	return err
}

// rest counts requests while nothing happens.
func (b *bench) rest(kind kind) error {
	g, err := b.startGroup(kind, "")
	if err != nil {
		return err
	}
	defer g.kill()
	const minutes = 2
	from := now()
	time.Sleep(minutes * time.Minute)
	for name, what := range map[string]string{
		"at rest: writes per minute and Lease": write, "at rest: reads per minute and Lease": read,
		"at rest: watches begun per minute and Lease": watch,
	} {
		count := 0
		for _, process := range g {
			count += len(process.find(what, from))
		}
		b.addValue(name, kind, float64(count)/float64(minutes*b.leases))
	}
	return nil
}

// start measures processes with one elector, and one with an elector for each Lease.
func (b *bench) start(kind kind) error {
	var one float64
	for range 3 {
		created, resident, err := b.alone(kind, 1)
		if err != nil {
			return err
		}
		one = resident
		b.addValue("start: ms until the first elector of a process exists", kind, float64(created)/1000)
		b.addValue("resident memory of a process with one elector, MB", kind, resident)
	}
	if b.leases == 1 {
		return nil
	}
	_, all, err := b.alone(kind, b.leases)
	if err == nil {
		b.addValue("resident memory for each further elector, MB", kind, (all-one)/float64(b.leases-1))
	}
	return err
}

// alone runs a process that leads so many Leases, and returns how long its first elector took to create, and its memory.
func (b *bench) alone(kind kind, leases int) (createdMicros int64, residentMB float64, err error) {
	b.groups++
	process, err := start(b.replica(kind, 0, "", b.names()[:leases]))
	if err != nil {
		return 0, 0, err
	}
	defer process.kill()
	if _, err := first("a lone replica leads", leads, leases, 0, process); err != nil {
		return 0, 0, err
	}
	time.Sleep(5 * time.Second)
	residentMB, err = process.residentMB()
	return process.find(created, 0)[0].At, residentMB, err
}
