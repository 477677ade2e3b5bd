package hustings

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
)

// The recorded simulation gives the same answers, byte for byte, on this machine.
func TestTheModuleAnswersAsInTheRecordedSimulation(t *testing.T) {
	file, err := os.Open("testdata/trace.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := newInstance()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Call, Config, Head, Body, Answer string
			Elector, Draw                    uint32
			MomentUs, WallUs                 int64
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		calls[line.Call]++
		var answer []byte
		switch line.Call {
		case "new":
			answer, err = instance.CreateRaw(line.MomentUs, line.WallUs, []byte(line.Config))
		case "step":
			answer, err = instance.StepRaw(line.Elector, line.MomentUs, line.WallUs, line.Draw, []byte(line.Head), []byte(line.Body))
		case "drop":
			err = instance.Drop(line.Elector)
		default:
			t.Fatalf("unknown call %q", line.Call)
		}
		if err != nil || string(answer) != line.Answer {
			t.Fatalf("%s %v: %s\nnot %s (%v)", line.Call, line.Head, answer, line.Answer, err)
		}
	}
	if lines.Err() != nil || calls["step"] < 1000 || calls["new"] == 0 {
		t.Errorf("%v, %v", calls, lines.Err())
	}
	t.Log(calls)
}
