package hustings

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics has the metrics of all electors of a process, under the names of the Rust client. Register it:
//
//	metrics := hustings.NewMetrics()
//	prometheus.MustRegister(metrics)
//
// Each scrape computes the values that depend on the time from what [Elector.IsLeader] reads. So a stuck or dead elector
// shows as 0.
//
//	leader_election_master_status          client-go's own metric: whether this process leads (1), by the name of the Lease
//	hustings_lease_held                    the same, by namespace/name of the Lease
//	hustings_lease_failing_open            whether the time range of this process continues after its end
//	hustings_lease_validity_seconds        how long this process can lead without another renewal
//	hustings_lease_terms_total             terms that have begun
//	hustings_lease_renewal_seconds         how long a renewal took, whether or not it succeeded
//	hustings_lease_renewal_failures_total  renewals that did not succeed
type Metrics struct {
	masterStatus, held, failingOpen, validity *prometheus.Desc
	terms, renewalFailures                    *prometheus.CounterVec
	renewals                                  *prometheus.HistogramVec
	// withoutMasterStatus leaves client-go's metric to another collector.
	withoutMasterStatus bool

	mutex sync.Mutex
	// electors has those that have not ended, by namespace/name of the Lease. A Lease stays when they have.
	electors map[string][]*Elector
}

// NewMetrics returns the metrics of this process.
func NewMetrics() *Metrics {
	byLease := []string{"lease"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, byLease)
	}
	return &Metrics{
		masterStatus: prometheus.NewDesc("leader_election_master_status",
			"Whether this process leads (1), by the name of the Lease", []string{"name"}, nil),
		held: prometheus.NewDesc("hustings_lease_held", "Whether this process holds the Lease (1)", byLease, nil),
		failingOpen: prometheus.NewDesc("hustings_lease_failing_open",
			"Whether the time range of this process continues after its end because no other holder is known (1)", byLease, nil),
		validity: prometheus.NewDesc("hustings_lease_validity_seconds",
			"How long this process can lead without another renewal", byLease, nil),
		terms:           counter("hustings_lease_terms_total", "Terms that have begun"),
		renewalFailures: counter("hustings_lease_renewal_failures_total", "Renewals that did not succeed"),
		renewals: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hustings_lease_renewal_seconds", Help: "How long a renewal took, whether or not it succeeded",
			Buckets: []float64{0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 3, 5, 10, 30},
		}, byLease),
		electors: map[string][]*Elector{},
	}
}

// WithoutMasterStatus leaves leader_election_master_status out, for a registry that has it already. That of
// controller-runtime does: a manager reports the metric itself.
func (m *Metrics) WithoutMasterStatus() *Metrics {
	m.withoutMasterStatus = true
	return m
}

// add adds an elector. A second elector of the same Lease continues the series of the first.
func (m *Metrics) add(e *Elector) observer {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	live := slices.DeleteFunc(slices.Clone(m.electors[e.name]), func(other *Elector) bool { return other.Err() != nil })
	m.electors[e.name] = append(live, e)
	return leaseMetrics{
		terms:           m.terms.WithLabelValues(e.name),
		renewalFailures: m.renewalFailures.WithLabelValues(e.name),
		renewals:        m.renewals.WithLabelValues(e.name),
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	if !m.withoutMasterStatus {
		to <- m.masterStatus
	}
	to <- m.held
	to <- m.failingOpen
	to <- m.validity
	m.terms.Describe(to)
	m.renewals.Describe(to)
	m.renewalFailures.Describe(to)
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mutex.Lock()
	electors := maps.Clone(m.electors)
	m.mutex.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	// client-go's label is only the name. Leases of one name in several namespaces share a series, which must not appear
	// twice.
	statuses := map[string]bool{}
	for lease, electors := range electors {
		var validity time.Duration
		isFailingOpen := false
		for _, elector := range electors {
			validity = max(validity, elector.Remaining())
			isFailingOpen = isFailingOpen || elector.isFailingOpen()
		}
		gauge(m.held, number(validity > 0), lease)
		gauge(m.failingOpen, number(isFailingOpen), lease)
		gauge(m.validity, validity.Seconds(), lease)
		_, name, _ := strings.Cut(lease, "/")
		statuses[name] = statuses[name] || validity > 0
	}
	if !m.withoutMasterStatus {
		for name, leads := range statuses {
			gauge(m.masterStatus, number(leads), name)
		}
	}
	m.terms.Collect(to)
	m.renewals.Collect(to)
	m.renewalFailures.Collect(to)
}

func number(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

type leaseMetrics struct {
	terms, renewalFailures prometheus.Counter
	renewals               prometheus.Observer
}

func (m leaseMetrics) began(string) { m.terms.Inc() }
func (m leaseMetrics) ended(string) {}
func (m leaseMetrics) renewed(took time.Duration, succeeded bool) {
	m.renewals.Observe(took.Seconds())
	if !succeeded {
		m.renewalFailures.Inc()
	}
}
