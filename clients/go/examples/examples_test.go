// Package examples has programs that stand for election. Its test applies the diffs of the guide.
package examples

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"hustings.io/go/internal/testkit"
)

const guide = "../../../docs/guides/coming-from-client-go-in-go.md"

func TestMain(m *testing.M) {
	code := m.Run()
	testkit.Stop()
	os.Exit(code)
}

// unapply applies a diff of the guide in reverse.
func unapply(t *testing.T, diff, source string) string {
	t.Helper()
	for hunk := range strings.SplitSeq(diff, "@@\n") {
		var before, after strings.Builder
		for line := range strings.Lines(hunk) {
			if line[0] != '+' {
				before.WriteString(line[1:])
			}
			if line[0] != '-' {
				after.WriteString(line[1:])
			}
		}
		if strings.Count(source, after.String()) != 1 {
			t.Fatalf("the example does not have these lines of %s once:\n%s", guide, after.String())
		}
		source = strings.Replace(source, after.String(), before.String(), 1)
	}
	return source
}

// build builds a program of this folder twice: as it is, and as it was before the diff of the guide.
func build(t *testing.T, number int, folder string, mostAdded int) (before, after string) {
	t.Helper()
	page, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	diff := regexp.MustCompile("(?s)```diff\n(.*?)```").FindAllStringSubmatch(string(page), -1)[number][1]
	if added := strings.Count("\n"+diff, "\n+"); added > mostAdded {
		t.Errorf("%d lines change", added)
	}
	file, err := filepath.Abs(filepath.Join(folder, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	old, overlay := filepath.Join(temporary, "main.go"), filepath.Join(temporary, "overlay.json")
	before, after = filepath.Join(temporary, "before"), filepath.Join(temporary, "after")
	if err := os.WriteFile(old, []byte(unapply(t, diff, string(source))), 0o600); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: old}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{{"-overlay", overlay, "-o", before}, {"-o", after}} {
		command := exec.Command("go", append(append([]string{"build"}, arguments...), "./"+folder)...)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", command, err, output)
		}
	}
	return before, after
}

// A program runs until the end of the test.
type program struct {
	*exec.Cmd
	lines chan string
}

func run(t *testing.T, environment []string, path string, arguments ...string) program {
	t.Helper()
	command := exec.Command(path, arguments...)
	command.Env = append(os.Environ(), environment...)
	output, input := io.Pipe()
	command.Stdout, command.Stderr = input, input
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := program{command, make(chan string, 10_000)}
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return p
}

// await waits for a line that contains the text.
func (p program) await(t *testing.T, text string) {
	t.Helper()
	var seen []string
	for timeout := time.After(time.Minute); ; {
		select {
		case line := <-p.lines:
			seen = append(seen, line)
			if strings.Contains(line, text) {
				return
			}
		case <-timeout:
			t.Fatalf("%v did not print %q, but:\n%s", p.Cmd, text, strings.Join(seen, "\n"))
		}
	}
}

func (p program) stop(t *testing.T) {
	t.Helper()
	_ = p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Errorf("%v: %s", p.Cmd, err)
	}
}

// The program is the same before and after the diff, but for its import. Replicas of both stand for one Lease.
func TestAProgramWithRunOrDieChangesItsImport(t *testing.T) {
	kubeconfig := testkit.Kubeconfig(t)
	before, after := build(t, 0, "run-or-die", 1)
	lease := "run-or-die-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	start := func(path, id string) program {
		return run(t, nil, path, "--kubeconfig", kubeconfig, "--lease-lock-name", lease, "--id", id)
	}
	old := start(before, "old")
	old.await(t, "working")
	first, second := start(after, "first"), start(after, "second")
	first.await(t, "new leader: old")
	second.await(t, "new leader: old")
	old.stop(t)
	leader, standby := first, second
	for working := false; !working; {
		select {
		case line := <-first.lines:
			working = line == "working"
		case line := <-second.lines:
			if working = line == "working"; working {
				leader, standby = second, first
			}
		case <-time.After(time.Minute):
			t.Fatal("nobody works")
		}
	}
	leader.stop(t)
	leader.await(t, "work has ended")
	leader.await(t, "stopped")
	standby.await(t, "working")
	standby.stop(t)
}

func TestAProjectOfKubebuilderChangesFewLines(t *testing.T) {
	_, after := build(t, 1, "kubebuilder/cmd", 5)
	client := kubernetes.NewForConfigOrDie(testkit.Config(t))
	namespace := "kubebuilder-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	kubeconfig := install(t, client, namespace)
	greet := func(name string) {
		t.Helper()
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"greet": name},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the controller greets "+name, func() bool {
			config, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && config.Data["greeting"] == "Hello, "+name+"!"
		})
	}
	start := func(path, pod string) (program, string) {
		probe, metrics := testkit.FreeAddress(t).String(), testkit.FreeAddress(t).String()
		environment := []string{"POD_NAMESPACE=" + namespace, "POD_NAME=" + pod, "KUBECONFIG=" + kubeconfig}
		return run(t, environment, path, "--leader-elect", "--health-probe-bind-address", probe,
			"--metrics-bind-address", metrics, "--metrics-secure=false"), metrics
	}
	first, _ := start(after, "first")
	first.await(t, "Starting workers")
	greet("ada")
	second, metrics := start(after, "second")
	second.await(t, "starting manager")
	testkit.Eventually(t, "the standby serves its metrics", func() bool {
		answer, err := http.Get("http://" + metrics + "/metrics")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && strings.Contains(string(text), "controller_runtime_")
	})
	first.stop(t)
	second.await(t, "Starting workers")
	greet("grace")
	second.stop(t)
}

// install creates the namespace with the ServiceAccount and the permissions of the example, and returns a kubeconfig of the
// ServiceAccount.
func install(t *testing.T, client kubernetes.Interface, namespace string) string {
	t.Helper()
	rbac, core, created := client.RbacV1(), client.CoreV1(), metav1.CreateOptions{}
	read := func(name string, into metav1.Object) {
		text, err := os.ReadFile("kubebuilder/config/rbac/" + name + ".yaml")
		if err == nil {
			err = yaml.UnmarshalStrict(text, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		into.SetNamespace(namespace)
	}
	var account corev1.ServiceAccount
	var election rbacv1.Role
	var elects rbacv1.RoleBinding
	var manager rbacv1.ClusterRole
	var manages rbacv1.ClusterRoleBinding
	read("service_account", &account)
	read("leader_election_role", &election)
	read("leader_election_role_binding", &elects)
	read("role", &manager)
	read("role_binding", &manages)
	// As kustomize does.
	manager.Name, manages.Name = namespace+"-"+manager.Name, namespace+"-"+manages.Name
	manages.RoleRef.Name = manager.Name
	elects.Subjects[0].Namespace, manages.Subjects[0].Namespace = namespace, namespace
	_, noNamespace := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, created)
	_, noAccount := core.ServiceAccounts(namespace).Create(t.Context(), &account, created)
	_, noElection := rbac.Roles(namespace).Create(t.Context(), &election, created)
	_, notElects := rbac.RoleBindings(namespace).Create(t.Context(), &elects, created)
	_, noManager := rbac.ClusterRoles().Create(t.Context(), &manager, created)
	_, notManages := rbac.ClusterRoleBindings().Create(t.Context(), &manages, created)
	token, noToken := core.ServiceAccounts(namespace).CreateToken(t.Context(), account.Name, new(authenticationv1.TokenRequest), created)
	file, err := clientcmd.LoadFromFile(testkit.Kubeconfig(t))
	if err := errors.Join(noNamespace, noAccount, noElection, notElects, noManager, notManages, noToken, err); err != nil {
		t.Fatal(err)
	}
	file.AuthInfos[file.Contexts[file.CurrentContext].AuthInfo] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}
