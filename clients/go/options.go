package hustings

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"hustings.io/go/internal/core"
)

// Forever is the value of [Options.FailOpen] without a bound.
const Forever time.Duration = 1<<63 - 1

// Options are the settings of an [Elector]. The zero value is an elector in direct mode, with client-go's durations.
type Options struct {
	// Identity is the name under which this replica holds the Lease, and the name of its candidate. No other replica may
	// have the same. Default: the name of the pod (environment variable POD_NAME), else the host name. If one process
	// stands for several Leases in coordinated mode, give each elector an identity of its own.
	Identity string

	// BinaryVersion is the semantic version of the program. It selects coordinated mode: this replica is a candidate, and
	// Hustings' controller elects among the candidates. Without it the elector is in direct mode, in which the first
	// replica that finds the Lease free claims it, as with client-go.
	BinaryVersion string
	// EmulationVersion is the version whose behaviour the program emulates. Default: BinaryVersion. Coordinated mode only.
	EmulationVersion string
	// Strategy is the strategy by which this candidate asks to be elected. Default: OldestEmulationVersion. Coordinated
	// mode only.
	Strategy string
	// Priority is the priority with which the elector creates its candidate. An existing candidate keeps its own.
	// Coordinated mode only.
	Priority *int32
	// NoFallback makes a Lease without a holder wait for a controller. By default, the candidates elect among themselves
	// if they have observed no controller for 25 s. Coordinated mode only.
	NoFallback bool

	// Key is the preference of this replica. A replica whose key is higher than the holder's asks the holder to hand over.
	// Direct mode only.
	Key *int64
	// Keys has each change of the key: nil means that it is not known. An elector that has ended receives no more, so a send
	// must not wait for it for ever. Direct mode only.
	Keys <-chan *int64

	// Timing has the durations.
	Timing Timing
	// FailOpen is how long the time range of this replica continues after its end while no other replica is known to have
	// taken over; see [Elector.Contains]. It does not affect whether the replica leads. Default: not at all.
	FailOpen time.Duration
	// KeepOnStop lets the Lease expire when the elector stops, instead of releasing it.
	KeepOnStop bool

	// PodName, PodUID and Container name this pod and this container. The pod owns the candidate, so that Kubernetes
	// deletes the candidate with its pod. By the UID and the container, a restarted container takes its own Lease back at
	// once. Default: the environment variables POD_NAME, POD_UID and CONTAINER_NAME.
	PodName, PodUID, Container string

	// OnNewLeader is called when the elector observes a new holder, including the first one and itself. Calls follow one
	// another in a goroutine of their own. A slow callback skips intermediate holders, never the latest.
	OnNewLeader func(identity string)
	// Events publishes an event on the Lease when a term of this elector begins and when it ends, with client-go's reason
	// and text. It needs the permission to create events of events.k8s.io; without it, only the events are lost.
	Events bool
	// Metrics has the metrics of this process's electors.
	Metrics *Metrics
	// Logger is the log. Default: [slog.Default].
	Logger *slog.Logger
}

// Timing has the durations of an elector. A zero field has its default.
type Timing struct {
	// LeaseDuration is how long other replicas wait after the last sign of life, in whole seconds. Default: 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is how long the elector relies on its last successful write, counted from the sending of that write.
	// Default: 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is how often the holder renews. Default: 2 s.
	RetryPeriod time.Duration
	// RequestTimeout is how long a request may take. Default: half of the renew deadline, less if the retry period is long,
	// and at most 5 s.
	RequestTimeout time.Duration
	// StopGrace is how long the work of a term may take to stop. Default: 25 s, since Kubernetes kills a pod 30 s after it
	// has asked the pod to stop.
	StopGrace time.Duration
}

func (t Timing) withDefaults() Timing {
	return Timing{
		LeaseDuration: cmp.Or(t.LeaseDuration, 15*time.Second),
		RenewDeadline: cmp.Or(t.RenewDeadline, 10*time.Second),
		RetryPeriod:   cmp.Or(t.RetryPeriod, 2*time.Second),
		// The core has the default.
		RequestTimeout: t.RequestTimeout,
		StopGrace:      cmp.Or(t.StopGrace, 25*time.Second),
	}
}

// config returns the configuration of the core, without its random part and its place.
func (o Options) config(namespace, lease string) (core.Config, error) {
	var problems []error
	if o.Timing.LeaseDuration%time.Second != 0 {
		problems = append(problems, fmt.Errorf("the lease duration of %s is not in whole seconds", o.Timing.LeaseDuration))
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"Timing.LeaseDuration", o.Timing.LeaseDuration}, {"Timing.RenewDeadline", o.Timing.RenewDeadline},
		{"Timing.RetryPeriod", o.Timing.RetryPeriod}, {"Timing.RequestTimeout", o.Timing.RequestTimeout},
		{"Timing.StopGrace", o.Timing.StopGrace}, {"FailOpen", o.FailOpen},
	} {
		if field.value < 0 {
			problems = append(problems, fmt.Errorf("%s is %s: it must not be negative", field.name, field.value))
		}
	}
	config := core.Config{
		Namespace:            namespace,
		LeaseName:            lease,
		Identity:             o.Identity,
		LeaseDurationSeconds: int64(o.Timing.LeaseDuration / time.Second),
		RenewDeadlineUs:      o.Timing.RenewDeadline.Microseconds(),
		RetryPeriodUs:        o.Timing.RetryPeriod.Microseconds(),
		RequestTimeoutUs:     o.Timing.RequestTimeout.Microseconds(),
		StopGraceUs:          o.Timing.StopGrace.Microseconds(),
		KeepOnStop:           o.KeepOnStop,
	}
	switch {
	case o.FailOpen == Forever:
		config.FailOpen = "unbounded"
	case o.FailOpen != 0:
		config.FailOpen = map[string]int64{"atMostUs": o.FailOpen.Microseconds()}
	}
	if o.BinaryVersion == "" {
		if o.EmulationVersion != "" || o.Strategy != "" || o.Priority != nil || o.NoFallback {
			problems = append(problems, errors.New(
				"EmulationVersion, Strategy, Priority and NoFallback are for candidates: set BinaryVersion for coordinated mode"))
		}
		config.Direct = &core.Direct{Key: o.Key}
		return config, errors.Join(problems...)
	}
	if o.Key != nil || o.Keys != nil {
		problems = append(problems, errors.New(
			"keys are for direct mode: remove BinaryVersion, or use Priority instead of Key"))
	}
	config.Coordinated = &core.Coordinated{
		BinaryVersion:    o.BinaryVersion,
		EmulationVersion: o.EmulationVersion,
		Strategy:         o.Strategy,
		Priority:         o.Priority,
		Fallback:         !o.NoFallback,
	}
	// Kubernetes treats an owner in another namespace as deleted.
	if o.PodName != "" && o.PodUID != "" && cmp.Or(podNamespace(), namespace) == namespace {
		config.Coordinated.Pod = &core.Pod{Name: o.PodName, UID: o.PodUID}
	}
	return config, errors.Join(problems...)
}

// withDefaults takes the missing settings from the environment.
func (o Options) withDefaults() Options {
	o.Timing = o.Timing.withDefaults()
	o.PodName = cmp.Or(o.PodName, os.Getenv("POD_NAME"))
	o.PodUID = cmp.Or(o.PodUID, os.Getenv("POD_UID"))
	o.Container = cmp.Or(o.Container, os.Getenv("CONTAINER_NAME"))
	o.Identity = cmp.Or(o.Identity, cmp.Or(o.PodName, hostName()))
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o
}

// podNamespace returns the namespace of this pod, or nothing if it is not known.
func podNamespace() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	file, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return strings.TrimSpace(string(file))
}

// notInName is what the name of an object must not contain.
var notInName = regexp.MustCompile(`[^a-z0-9.]`)

// hostName returns the host name, changed into a DNS subdomain as the name of a candidate must be.
func hostName() string {
	name, _ := os.Hostname()
	return dnsSubdomain(name)
}

func dnsSubdomain(name string) string {
	var labels []string
	for label := range strings.SplitSeq(notInName.ReplaceAllString(strings.ToLower(name), "-"), ".") {
		if label = strings.Trim(label, "-"); label != "" {
			labels = append(labels, label)
		}
	}
	return strings.Join(labels, ".")
}
