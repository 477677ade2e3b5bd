package hustings_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"hustings.io/go"
	"hustings.io/go/internal/testkit"
)

func Example() {
	server := testkit.StartServer() // in memory; a program uses the configuration of its cluster
	defer server.Stop()
	config := server.Config()
	elector, err := hustings.New(config, "n", "my-component", hustings.Options{Identity: "replica-0"})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = elector.Run(ctx, func(ctx context.Context, term *hustings.Term) {
		fmt.Println("term", term.Number, "leads:", elector.IsLeader())
		cancel() // in a cluster, SIGTERM does this
		<-ctx.Done()
	})
	fmt.Println("leads:", elector.IsLeader(), "error:", err)
	// Output:
	// term 1 leads: true
	// leads: false error: <nil>
}

func ExampleGate() {
	server := testkit.StartServer() // in memory; a program uses the configuration of its cluster
	defer server.Stop()
	config := server.Config()
	elector, err := hustings.New(config, "n", "my-component", hustings.Options{Identity: "replica-0"})
	if err != nil {
		panic(err)
	}
	gate, err := elector.Gate(hustings.GateOptions{Allow: hustings.AllowEvents})
	if err != nil {
		panic(err)
	}
	gated := rest.CopyConfig(config)
	gated.Wrap(gate.Wrap)
	client, err := rest.HTTPClientFor(gated)
	if err != nil {
		panic(err)
	}
	_, err = client.Post(config.Host+"/api/v1/namespaces/n/configmaps", "application/json", nil)
	fmt.Println(hustings.IsNotLeading(err))
	// Output: true
}
