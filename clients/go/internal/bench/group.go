package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a scenario waits for what must happen.
const patience = 2 * time.Minute

// A process is a running replica.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
	mutex   sync.Mutex
	events  []event
}

func start(r replica) (*process, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), replicaVariable+"="+string(text))
	// It must not outlive this process.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command: command, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var event event
			if json.Unmarshal(lines.Bytes(), &event) == nil {
				p.mutex.Lock()
				p.events = append(p.events, event)
				p.mutex.Unlock()
			}
		}
	}()
	return p, nil
}

func (p *process) signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// kill kills the process, and waits until it is gone.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
	_ = p.command.Wait()
}

// find returns the events of this kind from an instant on, in the order in which they were printed.
func (p *process) find(kind string, since int64) []event {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var found []event
	for _, event := range p.events {
		if event.Kind == kind && (kind == created || event.At >= since) {
			found = append(found, event)
		}
	}
	return found
}

// residentMB returns the resident memory.
func (p *process) residentMB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] == "VmRSS:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", p.command.Process.Pid)
}

// first waits until each Lease has an event of this kind, from an instant on, of any of the processes. It returns when
// each came first.
func first(what, kind string, leases int, since int64, processes ...*process) ([]int64, error) {
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		found := map[int]int64{}
		for _, process := range processes {
			for _, event := range process.find(kind, since) {
				if at, ok := found[event.Lease]; !ok || event.At < at {
					found[event.Lease] = event.At
				}
			}
		}
		if len(found) == leases {
			instants := make([]int64, leases)
			for lease, at := range found {
				instants[lease] = at
			}
			return instants, nil
		}
	}
	return nil, fmt.Errorf("not within %s: %s", patience, what)
}

// A group is three replicas of each Lease: one process for each index. The first leads all Leases.
type group []*process

func (g group) kill() {
	for _, process := range g {
		process.kill()
	}
}

// leave stops the processes in order. Candidates of killed ones would be pinged by the controllers of later rounds, which
// would delay what those measure.
func (g group) leave() {
	for _, process := range g {
		process.signal(syscall.SIGTERM)
	}
	for _, process := range g {
		select {
		case <-process.ended:
		case <-time.After(patience):
		}
	}
	g.kill()
}

// others returns all but the leader.
func (g group) others() []*process { return g[1:] }

// startGroup starts a group and waits until its standbys have observed the leader. The wait varies, since a leader may
// die at any time after its last renewal.
func (b *bench) startGroup(kind kind, version string) (group, error) {
	b.groups++
	var g group
	for index := range 3 {
		process, err := start(b.replica(kind, index, version, b.names()))
		if err != nil {
			g.kill()
			return nil, err
		}
		g = append(g, process)
		if index == 0 {
			_, err = first("the first replica leads", leads, b.leases, 0, process)
		} else {
			_, err = first("a replica begins", runs, 1, 0, process)
		}
		if err != nil {
			g.kill()
			return nil, err
		}
	}
	time.Sleep(5*time.Second + time.Duration(now()%2_000_000)*time.Microsecond)
	if lost := g[0].find(rests, 0); len(lost) > 0 {
		g.kill()
		return nil, fmt.Errorf("the leader has lost %d Leases before anything happened to it", len(lost))
	}
	return g, nil
}

func (b *bench) replica(kind kind, index int, version string, leases []string) replica {
	identity := fmt.Sprintf("%s-%d-%d", b.run, b.groups, index)
	return replica{Kind: kind, Kubeconfig: b.kubeconfig, Identity: identity, Version: version, Leases: leases}
}

// names returns the Leases of the present group.
func (b *bench) names() []string {
	leases := make([]string, b.leases)
	for at := range leases {
		leases[at] = fmt.Sprintf("bench-%s-%d-%d", b.run, b.groups, at)
	}
	return leases
}
