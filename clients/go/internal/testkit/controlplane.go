package testkit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
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
	stop       func()
}

// Kubeconfig returns the kubeconfig of a real control plane, which the tests of one package share.
func Kubeconfig(t testing.TB) string {
	plane.Lock()
	defer plane.Unlock()
	if plane.stop == nil {
		kubeconfig, stop, err := Up()
		if errors.Is(err, errNone) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		plane.kubeconfig, plane.stop = kubeconfig, stop
	}
	return plane.kubeconfig
}

var errNone = fmt.Errorf("this needs a control plane: set %s, or %s to the program `up` of tests/kit/controlplane",
	kubeconfigVariable, upVariable)

// Up returns the kubeconfig of a real control plane, and a function that stops it if this process has started it.
func Up() (kubeconfig string, stop func(), err error) {
	if path := os.Getenv(kubeconfigVariable); path != "" {
		return path, func() {}, nil
	}
	up := os.Getenv(upVariable)
	if up == "" {
		return "", nil, errNone
	}
	command := exec.Command(up)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), "export KUBECONFIG="); ok {
			return path, func() { stopUp(command) }, nil
		}
	}
	return "", nil, fmt.Errorf("%s has not started a control plane", up)
}

func stopUp(up *exec.Cmd) {
	_ = up.Process.Signal(os.Interrupt)
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		_ = up.Process.Kill()
	}
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
	if plane.stop != nil {
		plane.stop()
	}
}

// StartController installs the CRD and starts a controller, which ends with the test.
func StartController(t testing.TB) {
	Binary(t)
	command, err := Controller(Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
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

// Controller installs the CRD, and returns the command of a controller.
func Controller(kubeconfig string) (*exec.Cmd, error) {
	binary := os.Getenv(binaryVariable)
	if binary == "" {
		return nil, fmt.Errorf("this needs the binary `hustings`: set %s", binaryVariable)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	crds, err := exec.Command(binary, "crds").Output()
	if err != nil {
		return nil, err
	}
	client := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	for _, text := range strings.Split(string(crds), "\n---\n") {
		var crd unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &crd.Object); err != nil {
			return nil, err
		}
		apply := metav1.ApplyOptions{FieldManager: "test", Force: true}
		if _, err := client.Apply(context.Background(), crd.GetName(), &crd, apply); err != nil {
			return nil, err
		}
	}
	return exec.Command(binary, "controller", "--kubeconfig", kubeconfig, "--namespace", "default",
		"--leader-elect=false", "--admin-address", "127.0.0.1:0"), nil
}
