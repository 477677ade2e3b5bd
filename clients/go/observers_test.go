package hustings

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hustings.io/go/internal/testkit"
)

// values returns the values of all gauges and counters, and the counts of histograms.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values[family.GetName()+" "+metric.GetLabel()[0].GetValue()] =
				metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestMetricsAndEventsFollowTheTerms(t *testing.T) {
	server := testkit.NewServer(t)
	metrics, registry := NewMetrics(), prometheus.NewRegistry()
	registry.MustRegister(metrics)
	if registry.Register(NewMetrics()) == nil {
		t.Error("the same metrics were registered twice")
	}
	options, _ := testOptions(t, "a", steady)
	options.Metrics, options.Events = metrics, true
	elector := create(t, server, options)
	before := values(t, registry)
	r := start(t, elector, nil)
	r.awaitLeader(t)
	testkit.Eventually(t, "renewals are counted", func() bool { return values(t, registry)["hustings_lease_renewal_seconds n/l"] > 2 })
	during := values(t, registry)
	r.stop()
	<-r.ended
	after := values(t, registry)
	for name, expected := range map[string][3]float64{
		"leader_election_master_status l":           {0, 1, 0},
		"hustings_lease_held n/l":                   {0, 1, 0},
		"hustings_lease_failing_open n/l":           {0, 0, 0},
		"hustings_lease_terms_total n/l":            {0, 1, 1},
		"hustings_lease_renewal_failures_total n/l": {0, 0, 0},
	} {
		if got := [3]float64{before[name], during[name], after[name]}; got != expected {
			t.Errorf("%s: %v, not %v", name, got, expected)
		}
	}
	if validity := during["hustings_lease_validity_seconds n/l"]; validity <= 0 || validity > steady.RenewDeadline.Seconds() {
		t.Errorf("validity: %v", validity)
	}
	testkit.Eventually(t, "the beginning and the end are published", func() bool {
		return server.Requests(http.MethodPost, "/apis/events.k8s.io/v1/namespaces/n/events") == 2
	})
}

// A scrape reads the electors that it has found while others are added.
func TestElectorsOfAScrapeStayWhileOthersAreAdded(t *testing.T) {
	server := testkit.NewServer(t)
	options, _ := testOptions(t, "a", steady)
	options.Metrics = NewMetrics()
	create(t, server, options).Abandon()
	scraped := options.Metrics.electors["n/l"]
	create(t, server, options)
	if len(scraped) != 1 || scraped[0] == nil || scraped[0].Err() == nil {
		t.Errorf("%v", scraped)
	}
}

// Two replicas lead one after the other. Each instant belongs to at most one of them, and every answer stays true.
func TestNoInstantBelongsToTwoReplicas(t *testing.T) {
	server := testkit.NewServer(t)
	options, _ := testOptions(t, "a", steady)
	first := startReplica(t, server, options, nil)
	first.awaitLeader(t)
	owned := func(r replica) (instants []time.Time) {
		for len(instants) < 20 {
			if now := time.Now(); r.Contains(now) {
				instants = append(instants, now)
			}
			time.Sleep(time.Millisecond)
		}
		return instants
	}
	instants := owned(first)
	if _, ok := first.Range(); !ok || first.Contains(time.Now().Add(time.Hour)) || first.Contains(time.Now().Add(-time.Hour)) {
		t.Error("wrong range")
	}
	options, _ = testOptions(t, "b", steady)
	second := startReplica(t, server, options, nil)
	first.stop()
	<-first.ended
	second.awaitLeader(t)
	for _, instant := range slices.Concat(instants, owned(second)) {
		if first.Contains(instant) == second.Contains(instant) {
			t.Errorf("%s belongs to both, or to none", instant)
		}
	}
}
