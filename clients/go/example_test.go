package hustings_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"hustings.io/go"
)

// A program that works while it leads, and gives the Lease up on SIGTERM.
func Example() {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	elector, err := hustings.New(config, "default", "my-component", hustings.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = elector.Run(ctx, func(ctx context.Context, term *hustings.Term) {
		log.Printf("leading: term %d, token %d", term.Number, term.Token)
		<-ctx.Done()
		log.Print("the work has ended")
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Each replica is a candidate, and Hustings' controller elects the oldest version.
func ExampleNew_byVersion() {
	metrics := hustings.NewMetrics()
	prometheus.MustRegister(metrics)
	elector, err := hustings.New(&rest.Config{Host: "https://10.0.0.1"}, "default", "my-component", hustings.Options{
		BinaryVersion: "1.4.0",
		Metrics:       metrics,
		OnNewLeader:   func(identity string) { log.Printf("%s leads", identity) },
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		log.Fatal(elector.Run(context.Background(), func(ctx context.Context, _ *hustings.Term) { <-ctx.Done() }))
	}()
}

// An error names every setting that is wrong.
func ExampleNew_invalid() {
	_, err := hustings.New(&rest.Config{Host: "https://10.0.0.1"}, "default", "my-component", hustings.Options{
		Identity: "my-component-0",
		Timing:   hustings.Timing{LeaseDuration: 1500 * time.Millisecond},
	})
	fmt.Println(err)
	// Output:
	// cannot stand for Lease default/my-component: the lease duration of 1.5s is not in whole seconds
}

// Every replica runs the same code, and only the leader's writes pass.
func ExampleElector_Gate() {
	var config *rest.Config
	elector, err := hustings.New(config, "default", "my-component", hustings.Options{})
	if err != nil {
		log.Fatal(err)
	}
	gate, err := elector.Gate(hustings.GateOptions{Allow: hustings.AllowEvents})
	if err != nil {
		log.Fatal(err)
	}
	gated := rest.CopyConfig(config)
	gated.Wrap(gate.Wrap)
	client := kubernetes.NewForConfigOrDie(gated)
	_, err = client.CoreV1().ConfigMaps("default").Create(context.Background(), &corev1.ConfigMap{}, metav1.CreateOptions{})
	var refused *hustings.GateError
	switch {
	case hustings.IsNotLeading(err):
		log.Print("a standby: the write was not sent")
	case errors.As(err, &refused):
		log.Print("the term ended during the write: read before you write again")
	}
}

// Each data point is sent by exactly one replica.
func ExampleElector_Contains() {
	send := func(elector *hustings.Elector, points []time.Time) {
		for _, point := range points {
			if elector.Contains(point) {
				log.Print("sending the point of ", point)
			}
		}
	}
	_ = send
}
