package hustings

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
	"time"
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

// BenchmarkDecision measures a step without an event, with both conversions.
func BenchmarkDecision(b *testing.B) {
	instance, err := newInstance()
	if err != nil {
		b.Fatal(err)
	}
	config := `{"namespace":"n","leaseName":"l","identity":"a","random":"000102030405060708090a0b0c0d0e0f","direct":{}}`
	created, err := instance.Create(1, 1, []byte(config))
	if err != nil {
		b.Fatal(err)
	}
	moment := int64(1)
	for b.Loop() {
		moment++
		if _, err := instance.Step(created.Elector, moment, moment, 5, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIsLeader(b *testing.B) {
	e := &Elector{clock: systemClock}
	e.validUntil.Store(e.clock.moment() + time.Hour.Microseconds())
	for b.Loop() {
		if !e.IsLeader() {
			b.Fatal("does not lead")
		}
	}
}
