package hustings

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Where the system allows no executable memory, the module is interpreted.
func TestWithoutExecutableMemoryTheModuleIsInterpreted(t *testing.T) {
	const variable = "HUSTINGS_TEST_WITHOUT_EXECUTABLE_MEMORY"
	if os.Getenv(variable) == "" {
		command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), variable+"=1")
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		if strings.Contains(string(output), "--- SKIP") {
			t.Skipf("%s", output)
		}
		return
	}
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
		t.Skipf("this kernel cannot refuse executable memory: %v", err)
	}
	instance, err := newInstance()
	if err != nil {
		t.Fatal(err)
	}
	if instance.Interpreted() == nil {
		t.Error("the module is compiled")
	}
	replay(t, instance, 100)
}
