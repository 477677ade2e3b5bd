// Command bench measures this client beside client-go in one run, on a real control plane. It prints a table.
//
//	go run ./internal/bench -kubeconfig PATH [-binary PATH] [-leases 20]
//
// Each of three processes stands for every Lease, once for each library. All times are from the act to the moment at which
// another process sees by IsLeader, asked every 2 ms, that it leads. With -binary, the binary hustings, it also measures
// an older version that joins.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"hustings.io/go"
)

const replicaVariable = "HUSTINGS_BENCH_REPLICA"

// A replica is one process.
type replica struct {
	Library, Kubeconfig, Prefix, Identity, Version string
	Leases                                         int
}

// A transition is a line of a replica: it begins or ceases to lead.
type transition struct {
	lease int
	leads bool
	at    time.Time
}

// must ends the program.
func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	if text := os.Getenv(replicaVariable); text != "" {
		var r replica
		must(0, json.Unmarshal([]byte(text), &r))
		r.run()
		return
	}
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig of the control plane")
	binary := flag.String("binary", "", "the binary hustings, for a controller")
	leases := flag.Int("leases", 20, "how many Leases")
	flag.Parse()
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d Leases x 3 replicas, 15/10/2 s; load of the machine at the start: %s", *leases, load)
	fmt.Printf("| %-44s | %-28s | %-28s |\n", "median / maximum", "client-go", "hustings")
	tables := map[string]map[string]string{}
	var group sync.WaitGroup
	var mutex sync.Mutex
	for _, library := range []string{"client-go", "hustings"} {
		group.Go(func() {
			results := measure(replica{Library: library, Kubeconfig: *kubeconfig, Leases: *leases})
			mutex.Lock()
			defer mutex.Unlock()
			tables[library] = results
		})
	}
	group.Wait()
	names := []string{}
	for name := range tables["hustings"] {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Printf("| %-44s | %-28s | %-28s |\n", name, tables["client-go"][name], tables["hustings"][name])
	}
	if *binary != "" {
		joined := joins(*binary, replica{Library: "hustings", Kubeconfig: *kubeconfig, Leases: *leases})
		fmt.Printf("| %-44s | %-28s | %-28s |\n", "an older version joins, from its start", "-", joined)
	}
	load, _ = os.ReadFile("/proc/loadavg")
	fmt.Printf("load at the end: %s", load)
}

// measure runs all scenes with one library.
func measure(r replica) map[string]string {
	results := map[string]string{}
	r.Prefix = "bench-" + r.Library + "-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	start := func(identity string) *process {
		r.Identity = identity
		return r.start()
	}
	first := start("first")
	first.await(r.Leases)
	results["start until all lead (ms)"] = strconv.FormatInt(time.Since(first.started).Milliseconds(), 10)
	second, third := start("second"), start("third")
	time.Sleep(10 * time.Second)
	before := first.requests.Load() + second.requests.Load() + third.requests.Load()
	time.Sleep(20 * time.Second)
	count := first.requests.Load() + second.requests.Load() + third.requests.Load() - before
	results["requests at rest (per Lease and second)"] = fmt.Sprintf("%.2f", float64(count)/20/float64(r.Leases))
	results["memory of a replica (MB RSS)"] = fmt.Sprintf("%d holder, %d standby", first.rss(), second.rss())
	results["crash (s)"] = first.act(syscall.SIGKILL, second, third)
	first = start("first")
	time.Sleep(10 * time.Second)
	results["graceful stop (s)"] = second.act(syscall.SIGTERM, first, third)
	second = start("second")
	time.Sleep(10 * time.Second)
	held := third.held()
	results["frozen (s)"] = third.act(syscall.SIGSTOP, first, second)
	time.Sleep(time.Until(third.acted.Add(25 * time.Second)))
	thawed := time.Now()
	must(0, third.command.Process.Signal(syscall.SIGCONT))
	time.Sleep(5 * time.Second)
	results["thawed after 25 s: both lead for (ms)"] = third.ceased(held, thawed)
	for _, p := range []*process{first, second, third} {
		p.end()
	}
	return results
}

// joins returns how long after its start an older version leads.
func joins(binary string, r replica) string {
	r.Prefix = "bench-versions-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	controller := exec.Command(binary, "controller", "--kubeconfig", r.Kubeconfig, "--namespace", "default",
		"--leader-elect=false", "--admin-address", "127.0.0.1:0")
	must(0, controller.Start())
	defer func() { _ = controller.Process.Kill() }()
	r.Identity, r.Version = "new", "1.2.0"
	newer := r.start()
	newer.await(r.Leases)
	r.Identity, r.Version = "old", "1.1.0"
	older := r.start()
	older.await(r.Leases)
	var took []float64
	for _, t := range older.transitions() {
		took = append(took, t.at.Sub(older.started).Seconds())
	}
	newer.end()
	older.end()
	return summary(took)
}

// A process is a running replica, as its parent sees it.
type process struct {
	command  *exec.Cmd
	started  time.Time
	acted    time.Time
	requests atomic.Int64
	mutex    sync.Mutex
	seen     []transition
}

func (r replica) start() *process {
	command := exec.Command(must(os.Executable()))
	command.Env = append(os.Environ(), replicaVariable+"="+string(must(json.Marshal(r))))
	output := must(command.StdoutPipe())
	p := &process{command: command, started: time.Now()}
	must(0, command.Start())
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var kind string
			var value, micros int64
			if _, err := fmt.Sscan(lines.Text(), &kind, &value, &micros); err != nil {
				continue
			}
			if kind == "requests" {
				p.requests.Store(value)
				continue
			}
			p.mutex.Lock()
			p.seen = append(p.seen, transition{int(value), kind == "leads", time.UnixMicro(micros)})
			p.mutex.Unlock()
		}
	}()
	return p
}

func (p *process) transitions() []transition {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.seen)
}

// held returns the Leases that the process holds.
func (p *process) held() map[int]bool {
	held := map[int]bool{}
	for _, t := range p.transitions() {
		held[t.lease] = t.leads
		if !t.leads {
			delete(held, t.lease)
		}
	}
	return held
}

// await waits until the process holds so many Leases.
func (p *process) await(count int) {
	for until := time.Now().Add(2 * time.Minute); len(p.held()) < count; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			must(0, fmt.Errorf("a replica leads %d Leases only", len(p.held())))
		}
	}
}

// act sends a signal to the process, and returns how long its Leases were without a leader.
func (p *process) act(signal syscall.Signal, others ...*process) string {
	held := p.held()
	p.acted = time.Now()
	must(0, p.command.Process.Signal(signal))
	took := map[int]float64{}
	for until := time.Now().Add(time.Minute); len(took) < len(held) && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		for _, other := range others {
			for _, t := range other.transitions() {
				if t.leads && held[t.lease] && t.at.After(p.acted) {
					took[t.lease] = t.at.Sub(p.acted).Seconds()
				}
			}
		}
	}
	values := []float64{}
	for _, value := range took {
		values = append(values, value)
	}
	return fmt.Sprintf("%s (of %d/%d)", summary(values), len(took), len(held))
}

// ceased returns how long after a moment the process still believed to hold the Leases.
func (p *process) ceased(held map[int]bool, since time.Time) string {
	var took []float64
	for _, t := range p.transitions() {
		if held[t.lease] && !t.leads && t.at.After(since) {
			took = append(took, float64(t.at.Sub(since).Milliseconds()))
		}
	}
	return fmt.Sprintf("%s (of %d/%d)", summary(took), len(took), len(held))
}

func (p *process) rss() int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	var kilobytes int
	_, _ = fmt.Sscan(after, &kilobytes)
	return kilobytes / 1000
}

func (p *process) end() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

func summary(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	slices.Sort(values)
	return fmt.Sprintf("%.2f / %.2f", values[len(values)/2], values[len(values)-1])
}

// run stands for every Lease, and prints each transition.
func (r replica) run() {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	config := must(clientcmd.BuildConfigFromFlags("", r.Kubeconfig))
	config.QPS = -1
	var requests atomic.Int64
	config.Wrap(func(transport http.RoundTripper) http.RoundTripper { return counter{transport, &requests} })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var leads []func() bool
	var group sync.WaitGroup
	for at := range r.Leases {
		isLeader, run := r.elector(config, fmt.Sprintf("%s-%d", r.Prefix, at))
		leads = append(leads, isLeader)
		group.Go(func() { run(ctx) })
	}
	go func() {
		led := make([]bool, len(leads))
		for count := 0; ; count++ {
			for at, isLeader := range leads {
				if now := isLeader(); now != led[at] {
					led[at] = now
					fmt.Println(map[bool]string{true: "leads", false: "ceases"}[now], at, time.Now().UnixMicro())
				}
			}
			if count%100 == 0 {
				fmt.Println("requests", requests.Load(), 0)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	group.Wait()
}

func (r replica) elector(config *rest.Config, lease string) (isLeader func() bool, run func(context.Context)) {
	identity := r.Identity + "." + lease
	if r.Library == "hustings" {
		elector := must(hustings.New(config, "default", lease, hustings.Options{Identity: identity, BinaryVersion: r.Version}))
		return elector.IsLeader, func(ctx context.Context) {
			_ = elector.Run(ctx, func(ctx context.Context, _ *hustings.Term) { <-ctx.Done() })
		}
	}
	elector := must(clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: lease},
			Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: clientgo.LeaderCallbacks{OnStartedLeading: func(ctx context.Context) { <-ctx.Done() }, OnStoppedLeading: func() {}},
	}))
	return elector.IsLeader, func(ctx context.Context) {
		for ctx.Err() == nil {
			elector.Run(ctx)
		}
	}
}

// counter counts requests.
type counter struct {
	transport http.RoundTripper
	count     *atomic.Int64
}

func (c counter) RoundTrip(request *http.Request) (*http.Response, error) {
	c.count.Add(1)
	return c.transport.RoundTrip(request)
}
