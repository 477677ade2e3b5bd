package hustings

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hustings.io/go/internal/testkit"
)

// Replicas in Go and in Rust stand for one Lease. They are killed, frozen for longer than the Lease lasts, stopped and
// started, on a real control plane. No two ever lead at once.
func TestReplicasOfTwoLanguagesNeverLeadAtOnce(t *testing.T) {
	kubeconfig := testkit.Kubeconfig(t)
	binary := os.Getenv("HUSTINGS_TEST_BINARY")
	report, lease := filepath.Join(t.TempDir(), "report"), "mixed-"+suffix()
	start := func(identity string) *exec.Cmd {
		return helper{
			Kubeconfig: kubeconfig, Lease: lease, Report: report, Seconds: [3]float64{6, 3, 0.4},
			Identity: identity,
		}.start(t)
	}
	startRust := func(identity string) *exec.Cmd {
		command := exec.Command(binary, "run", "--kubeconfig", kubeconfig, "--namespace", "default", "--lease", lease, "--direct",
			"--identity", identity, "--lease-duration", "6s", "--renew-deadline", "3s", "--retry-period", "400ms",
			"--stop-grace", "1s", "--", os.Args[0])
		return startCommand(t, command, helperVariable+`={"Report":"`+report+`","Identity":"`+identity+`"}`)
	}
	starts := map[string]func(string) *exec.Cmd{"go-0": start, "go-1": start, "go-2": start}
	if binary == "" {
		t.Log("HUSTINGS_TEST_BINARY is not set: without replicas in Rust")
	} else {
		starts["rust-0"], starts["rust-1"] = startRust, startRust
	}
	running := map[string]*exec.Cmd{}
	for identity, start := range starts {
		running[identity] = start(identity)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 9 {
		before := len(testkit.Reigns(t, report))
		testkit.Eventually(t, "somebody leads", func() bool {
			leader := testkit.Leader(t, report)
			return leader != "" && len(testkit.Reigns(t, report)) >= max(before, 1)
		})
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		identity := testkit.Leader(t, report)
		command := running[identity]
		act := random.IntN(3)
		t.Logf("%s: %s", identity, []string{"killed", "frozen", "stopped"}[act])
		switch act {
		case 0:
			_ = command.Process.Kill()
		case 1:
			_ = command.Process.Signal(syscall.SIGSTOP)
		case 2:
			_ = command.Process.Signal(syscall.SIGTERM)
		}
		testkit.Eventually(t, "another one leads", func() bool { return testkit.Leader(t, report) != identity })
		if act == 1 {
			_ = command.Process.Signal(syscall.SIGCONT)
			continue
		}
		_ = command.Wait()
		running[identity] = starts[identity](identity)
	}
	reigns := testkit.Reigns(t, report)
	t.Logf("%d terms", len(reigns))
	if len(reigns) < 10 {
		t.Errorf("%d terms are too few", len(reigns))
	}
}

// A holder that was frozen for 25 s finds at once that it does not lead.
func TestAThawedHolderNeverLeadsBesideItsSuccessor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	kubeconfig := testkit.Kubeconfig(t)
	report, lease := filepath.Join(t.TempDir(), "report"), "frozen-"+suffix()
	replicas := map[string]*exec.Cmd{}
	for _, identity := range []string{"a", "b"} {
		replicas[identity] = helper{
			Kubeconfig: kubeconfig, Lease: lease, Report: report, Seconds: [3]float64{15, 10, 0.5},
			Identity: identity,
		}.start(t)
	}
	testkit.Eventually(t, "one leads", func() bool { return testkit.Leader(t, report) != "" })
	frozen := testkit.Leader(t, report)
	_ = replicas[frozen].Process.Signal(syscall.SIGSTOP)
	testkit.Eventually(t, "the other leads", func() bool { return testkit.Leader(t, report) != frozen })
	// The other one has waited for almost 15 s.
	time.Sleep(11 * time.Second)
	_ = replicas[frozen].Process.Signal(syscall.SIGCONT)
	successor := testkit.Leader(t, report)
	_ = replicas[successor].Process.Signal(syscall.SIGTERM)
	testkit.Eventually(t, "the thawed one leads again", func() bool { return testkit.Leader(t, report) == frozen })
	if reigns := testkit.Reigns(t, report); len(reigns) != 3 {
		t.Errorf("terms: %v", reigns)
	}
}

// A controller elects among candidates in Go and in Rust: the oldest version leads, also if it joins last.
func TestTheOldestVersionOfTwoLanguagesLeads(t *testing.T) {
	binary, kubeconfig := testkit.Binary(t), testkit.Kubeconfig(t)
	testkit.StartController(t)
	report, lease := filepath.Join(t.TempDir(), "report"), "versions-"+suffix()
	start := func(identity, version string) {
		helper{
			Kubeconfig: kubeconfig, Lease: lease, Report: report, Seconds: [3]float64{15, 10, 2},
			Identity: identity + "-" + lease, Version: version,
		}.start(t)
	}
	leads := func(identity string) {
		t.Helper()
		testkit.Eventually(t, identity+" leads", func() bool { return testkit.Leader(t, report) == identity+"-"+lease })
	}
	start("go-new", "1.3.0")
	leads("go-new")
	command := exec.Command(binary, "run", "--kubeconfig", kubeconfig, "--namespace", "default", "--lease", lease,
		"--identity", "rust-"+lease, "--binary-version", "1.2.0", "--", os.Args[0])
	startCommand(t, command, helperVariable+`={"Report":"`+report+`","Identity":"rust-`+lease+`"}`)
	leads("rust")
	start("go-old", "1.1.0")
	leads("go-old")
	testkit.Reigns(t, report)
}

// A controller elects among candidates in Go, in Rust and in Python, which stands by the protocol alone. The oldest version
// leads, as each joins and leaves, and no two lead at once.
func TestTheOldestVersionOfThreeLanguagesLeads(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("this test runs tests/kit/python/stand.py: %v", err)
	}
	binary, kubeconfig := testkit.Binary(t), testkit.Kubeconfig(t)
	testkit.StartController(t)
	report, lease := filepath.Join(t.TempDir(), "report"), "languages-"+suffix()
	leads := func(identity string) {
		t.Helper()
		testkit.Eventually(t, identity+" leads", func() bool { return testkit.Leader(t, report) == identity+"-"+lease })
	}
	startPython(t, python, lease, report, "python-"+lease, "1.3.0")
	leads("python")
	inGo := helper{
		Kubeconfig: kubeconfig, Lease: lease, Report: report, Seconds: [3]float64{15, 10, 2},
		Identity: "go-" + lease, Version: "1.2.0",
	}.start(t)
	leads("go")
	command := exec.Command(binary, "run", "--kubeconfig", kubeconfig, "--namespace", "default", "--lease", lease,
		"--identity", "rust-"+lease, "--binary-version", "1.1.0", "--", os.Args[0])
	inRust := startCommand(t, command, helperVariable+`={"Report":"`+report+`","Identity":"rust-`+lease+`"}`)
	leads("rust")
	_ = inRust.Process.Signal(syscall.SIGTERM)
	leads("go")
	_ = inGo.Process.Signal(syscall.SIGTERM)
	leads("python")
	if reigns := testkit.Reigns(t, report); len(reigns) != 5 {
		t.Errorf("terms: %v", reigns)
	}
}

// startPython starts a replica in Python, and writes the beginning and the end of its terms into the report. It says that
// a term has ended before it gives the Lease up.
func startPython(t *testing.T, python, lease, report, identity, version string) {
	config := testkit.Config(t)
	client := kubernetes.NewForConfigOrDie(config)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: identity}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: identity},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: identity, Namespace: "default"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	ctx, accounts := t.Context(), client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(ctx, identity, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(python, "../../tests/kit/python/stand.py", "--server", strings.TrimSuffix(config.Host, "/"),
		"--token", token.Status.Token, "--ca-file", ca, "--namespace", "default", "--lease", lease, "--identity", identity,
		"--binary-version", version, "--emulation-version", version)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	startCommand(t, command)
	file, err := os.OpenFile(report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer file.Close()
		for lines := bufio.NewScanner(output); lines.Scan(); {
			var line struct {
				Time  time.Time
				Event string
				Token uint64
			}
			if json.Unmarshal(lines.Bytes(), &line) == nil && (line.Event == "leading" || line.Event == "stopped") {
				at := line.Time.UnixMicro() + systemClock.moment() - systemClock.wall()
				fmt.Fprintf(file, "%d %d %s/%d\n", at, at, identity, line.Token)
			}
		}
	}()
}

// suffix makes the name of a Lease unique in a control plane that several runs share.
func suffix() string { return strconv.FormatInt(time.Now().UnixMilli(), 36) }
