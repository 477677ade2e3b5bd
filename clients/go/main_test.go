package hustings

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"hustings.io/go/internal/testkit"
)

// helperVariable makes the test binary a replica.
const helperVariable = "HUSTINGS_TEST_HELPER"

// clockVariable makes it print its clock.
const clockVariable = "HUSTINGS_TEST_CLOCK"

// A helper is a replica in a process of its own.
type helper struct {
	// Kubeconfig is empty for a helper that only reports, as the command of `hustings run`.
	Kubeconfig, Server, Lease, Report    string
	Identity, PodUID, Container, Version string
	Seconds                              [3]float64 // lease duration, renew deadline, retry period
	// When the work panics: "at once", "late", when Run has returned without it, or never.
	Panics string
}

func TestMain(m *testing.M) {
	if os.Getenv(clockVariable) != "" {
		fmt.Print(systemClock.moment())
		return
	}
	if text := os.Getenv(helperVariable); text != "" {
		var helper helper
		if err := json.Unmarshal([]byte(text), &helper); err != nil {
			panic(err)
		}
		helper.run()
		return
	}
	code := m.Run()
	testkit.Stop()
	os.Exit(code)
}

func (h helper) run() {
	if h.Lease == "" {
		pid := strconv.Itoa(os.Getpid())
		testkit.Report(h.Report, h.Identity, func() (string, bool) { return pid, true })
	}
	seconds := func(at int) time.Duration { return time.Duration(h.Seconds[at] * float64(time.Second)) }
	options := Options{
		Identity: h.Identity, PodUID: h.PodUID, Container: h.Container, BinaryVersion: h.Version,
		Timing: Timing{LeaseDuration: seconds(0), RenewDeadline: seconds(1), RetryPeriod: seconds(2), StopGrace: 2 * time.Second},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	config, err := clientcmd.BuildConfigFromFlags(h.Server, h.Kubeconfig)
	if err != nil {
		panic(err)
	}
	namespace := "default"
	if h.Server != "" {
		namespace = "n"
	}
	elector, err := New(config, namespace, h.Lease, options)
	if err != nil {
		panic(err)
	}
	go testkit.Report(h.Report, h.Identity, func() (string, bool) {
		token, ok := elector.Token()
		return strconv.FormatUint(token, 10), ok
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	returned := make(chan struct{})
	err = elector.Run(ctx, func(ctx context.Context, _ *Term) {
		switch h.Panics {
		case "at once":
			panic("of the work")
		case "late":
			<-returned
			panic("of the work")
		}
		<-ctx.Done()
	})
	close(returned)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if h.Panics == "late" {
			time.Sleep(time.Minute)
		}
		os.Exit(1)
	}
}

// start starts a replica. It is killed at the end of the test.
func (h helper) start(t testing.TB, environment ...string) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return startCommand(t, exec.Command(os.Args[0]), append(environment, helperVariable+"="+string(text))...)
}

func startCommand(t testing.TB, command *exec.Cmd, environment ...string) *exec.Cmd {
	t.Helper()
	command.Env = append(os.Environ(), environment...)
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("log of %v (%v):\n%s", command.Args, lastOf(environment), text)
		}
		_ = log.Close()
	})
	return command
}

func lastOf(environment []string) string {
	if len(environment) == 0 {
		return ""
	}
	return environment[len(environment)-1]
}
