package hustings

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hustings.io/go/internal/testkit"
)

func TestEachOptionReachesTheCore(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "n")
	timing := Timing{
		LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 3 * time.Second,
		RequestTimeout: 4 * time.Second, StopGrace: 7 * time.Second,
	}
	const durations = `"leaseDurationSeconds":30,"renewDeadlineUs":20000000,"retryPeriodUs":3000000,"requestTimeoutUs":4000000,"stopGraceUs":7000000`
	for _, c := range []struct {
		options  Options
		expected string
	}{
		{
			Options{
				Identity: "a", Timing: timing, BinaryVersion: "1.2.0", EmulationVersion: "1.1.0", Strategy: "OldestEmulationVersion",
				Priority: new(int32(5)), NoFallback: true, FailOpen: time.Minute, KeepOnStop: true, PodName: "p", PodUID: "u",
			},
			`{"namespace":"n","leaseName":"l","identity":"a",` + durations + `,"failOpen":{"atMostUs":60000000},"keepOnStop":true,
				"coordinated":{"binaryVersion":"1.2.0","emulationVersion":"1.1.0","strategy":"OldestEmulationVersion","priority":5,
				"pod":{"name":"p","uid":"u"},"fallback":false}}`,
		},
		{
			Options{Identity: "a", Timing: timing, BinaryVersion: "1.2.0"},
			`{"namespace":"n","leaseName":"l","identity":"a",` + durations + `,"coordinated":{"binaryVersion":"1.2.0","fallback":true}}`,
		},
		{
			Options{Identity: "a", Timing: timing, Key: new(int64(1 << 62)), FailOpen: Forever},
			`{"namespace":"n","leaseName":"l","identity":"a",` + durations + `,"failOpen":"unbounded","direct":{"key":"4611686018427387904"}}`,
		},
	} {
		config, err := c.options.config("n", "l")
		if err != nil {
			t.Error(err)
		}
		if found, expected := canonical(t, config), canonical(t, json.RawMessage(c.expected)); found != expected {
			t.Errorf("\n%s, not\n%s", found, expected)
		}
		if _, err := newElector(&connections{clock: systemClock}, "n", "l", c.options); err != nil {
			t.Error(err)
		}
	}
}

// canonical returns JSON without fields that say nothing, in the order of their names.
func canonical(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, field := range fields {
		if field == nil || field == "" || field == false {
			delete(fields, name)
		}
	}
	text, _ = json.Marshal(fields)
	return string(text)
}

func TestARangeEndsWithItsTermUnlessItFailsOpenAndAKeptLeaseExpires(t *testing.T) {
	for _, failOpen := range []time.Duration{0, Forever} {
		server := testkit.NewServerWithLease(t)
		options, _ := testOptions(t, "a", quick)
		options.FailOpen, options.KeepOnStop = failOpen, true
		r := startReplica(t, server, options, nil)
		if term, err := r.Wait(t.Context()); err != nil || term != r.Term() {
			t.Errorf("%v, %v", term, err)
		}
		owned := time.Now()
		testkit.Eventually(t, "the range contains the present", func() bool { return r.Contains(owned) })
		server.SetFault(testkit.Silence)
		found, _ := r.Range()
		testkit.Eventually(t, "the range has ended", func() bool { return time.Now().After(found.End.Add(time.Second)) && !r.IsLeader() })
		if found, _ := r.Range(); r.Contains(time.Now()) != (failOpen == Forever) || found.FailingOpen != (failOpen == Forever) {
			t.Errorf("fail open %s: %+v", failOpen, found)
		}
		if !r.Contains(owned) {
			t.Error("an instant of the term is no longer contained")
		}
		server.SetFault(nil)
		r.awaitLeader(t)
		r.stop()
		if err := <-r.ended; err != nil || server.Holder("l") != "a" {
			t.Errorf("error %v, holder %q", err, server.Holder("l"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Wait(ctx); !errors.Is(err, ErrStopped) {
			t.Errorf("error: %v", err)
		}
	}
}

func TestTheServerStoresTheEventsOfTerms(t *testing.T) {
	config := testkit.Config(t)
	options, _ := testOptions(t, "a", steady)
	options.Events = true
	lease := "events-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	elector, err := New(config, "default", lease, options)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, elector, nil)
	r.awaitLeader(t)
	r.stop()
	client := kubernetes.NewForConfigOrDie(config).EventsV1().Events("default")
	for _, action := range []string{"BecomeLeader", "StopLeading"} {
		testkit.Eventually(t, "there is an event "+action, func() bool {
			events, err := client.List(t.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool {
				return event.Regarding.Kind == "Lease" && event.Regarding.Name == lease && event.Action == action
			})
		})
	}
}
