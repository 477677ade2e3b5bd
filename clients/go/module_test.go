package hustings

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"hustings.io/go/internal/core"
	"hustings.io/go/internal/testkit"
)

// The recorded simulation gives the same answers, byte for byte, on this machine.
func TestTheModuleAnswersAsInTheRecordedSimulation(t *testing.T) {
	instance, err := newInstance()
	if err != nil {
		t.Fatal(err)
	}
	calls := replay(t, instance, math.MaxInt)
	if calls["step"] < 1000 || calls["new"] == 0 {
		t.Errorf("too few calls: %v", calls)
	}
	t.Log(calls)
}

// The interpreter gives the same answers. It is slow, so it replays only the beginning.
func TestTheInterpretedModuleAnswersAsInTheRecordedSimulation(t *testing.T) {
	program, err := core.Interpret(module, errors.New("of a test"))
	if err != nil {
		t.Fatal(err)
	}
	instance, err := program.New()
	if err != nil {
		t.Fatal(err)
	}
	if instance.Interpreted() == nil {
		t.Error("the module is compiled")
	}
	replay(t, instance, 1000)
}

// replay replays the recorded simulation, up to so many calls. It returns the number of calls of each kind.
func replay(t *testing.T, instance *core.Instance, most int) map[string]int {
	t.Helper()
	file, err := os.Open("testdata/trace.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for ; most > 0 && lines.Scan(); most-- {
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
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return calls
}

// A decision: a step of an elector that holds its Lease and renews it, without the time of the server.
func BenchmarkDecision(b *testing.B) {
	instance, err := newInstance()
	if err != nil {
		b.Fatal(err)
	}
	options := Options{Identity: "a"}.withDefaults()
	config, err := options.config("n", "web")
	if err != nil {
		b.Fatal(err)
	}
	config.Random = strings.Repeat("0", 32)
	text, err := json.Marshal(config)
	if err != nil {
		b.Fatal(err)
	}
	moment, server := int64(1_000_000), testkit.NewServer(b)
	created, err := instance.Create(moment, moment, text)
	if err != nil {
		b.Fatal(err)
	}
	var took time.Duration
	steps, renewals := 0, 0
	var waiting []incoming
	for renewals < b.N {
		var next incoming
		if len(waiting) > 0 {
			next, waiting = waiting[0], waiting[1:]
		}
		before := time.Now()
		head, err := next.head()
		if err != nil {
			b.Fatal(err)
		}
		decision, err := instance.Step(created.Elector, moment, moment, 0, head, next.body)
		took += time.Since(before)
		if err != nil {
			b.Fatal(err)
		}
		steps++
		if decision.Renewal != nil {
			renewals++
		}
		for _, request := range decision.Requests {
			if request.Stream {
				continue // it stays silent
			}
			answer := httptest.NewRecorder()
			server.Handle(answer, httptest.NewRequest(request.Method, request.Path, strings.NewReader(request.Body)))
			event := core.Event{Event: "answer", ID: request.ID, Status: answer.Code}
			waiting = append(waiting, incoming{event, answer.Body.Bytes()})
		}
		if len(waiting) == 0 {
			if decision.DeadlineUs == nil {
				b.Fatal("the elector waits for nothing")
			}
			moment = max(moment+1, *decision.DeadlineUs)
		}
	}
	b.ReportMetric(float64(took.Microseconds())/float64(steps), "us/decision")
	b.ReportMetric(float64(steps)/float64(renewals), "decisions/renewal")
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
