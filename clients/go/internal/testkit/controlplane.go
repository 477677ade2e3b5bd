package testkit

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// These environment variables give the tests a real control plane and the binary of Hustings. Tests that need one that is
// missing are skipped.
const (
	// kubeconfigVariable is the kubeconfig of a control plane that the tests may write to.
	kubeconfigVariable = "HUSTINGS_TEST_KUBECONFIG"
	// upVariable is the program `up` of tests/kit/controlplane, which starts a control plane.
	upVariable = "HUSTINGS_TEST_UP"
	// binaryVariable is the binary `hustings`.
	binaryVariable = "HUSTINGS_TEST_BINARY"
)

var plane struct {
	sync.Mutex
	kubeconfig string
	up         *exec.Cmd
}

// Kubeconfig returns the kubeconfig of a real control plane, which the tests of one package share.
func Kubeconfig(t testing.TB) string {
	if path := os.Getenv(kubeconfigVariable); path != "" {
		return path
	}
	up := os.Getenv(upVariable)
	if up == "" {
		t.Skipf("this test needs a control plane: set %s, or %s to the program `up` of tests/kit/controlplane",
			kubeconfigVariable, upVariable)
	}
	plane.Lock()
	defer plane.Unlock()
	if plane.up != nil {
		return plane.kubeconfig
	}
	command := exec.Command(up)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), "export KUBECONFIG="); ok {
			plane.up, plane.kubeconfig = command, path
			return path
		}
	}
	t.Fatalf("%s has not started a control plane", up)
	return ""
}

// Config returns the configuration of a client of a real control plane.
func Config(t testing.TB) *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Binary returns the path of the binary `hustings`.
func Binary(t testing.TB) string {
	path := os.Getenv(binaryVariable)
	if path == "" {
		t.Skipf("this test needs the binary `hustings`: set %s", binaryVariable)
	}
	return path
}

// Stop stops the control plane, if the tests have started one.
func Stop() {
	plane.Lock()
	defer plane.Unlock()
	if plane.up == nil {
		return
	}
	_ = plane.up.Process.Signal(os.Interrupt)
	ended := make(chan error, 1)
	go func() { ended <- plane.up.Wait() }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		_ = plane.up.Process.Kill()
	}
}

// StartController installs the CRD and starts a controller, which ends with the test.
func StartController(t testing.TB) {
	binary, config := Binary(t), Config(t)
	crds, err := exec.Command(binary, "crds").Output()
	if err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	for _, text := range strings.Split(string(crds), "\n---\n") {
		var crd unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &crd.Object); err != nil {
			t.Fatal(err)
		}
		apply := metav1.ApplyOptions{FieldManager: "test", Force: true}
		if _, err := client.Apply(t.Context(), crd.GetName(), &crd, apply); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(binary, "controller", "--kubeconfig", Kubeconfig(t), "--namespace", "default",
		"--leader-elect=false", "--admin-address", "127.0.0.1:0")
	var log bytes.Buffer
	command.Stderr = &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("log of the controller:\n%s", log.String())
		}
	})
}
