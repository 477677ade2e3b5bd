package ctrl_test

import (
	"log"

	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	hustings "hustings.io/go/ctrl"
)

// The manager writes only while this process leads, and stops its controllers before the Lease is given up.
func Example() {
	election, err := hustings.New(config.GetConfigOrDie(), "", "80807133.example.com", hustings.Options{})
	if err != nil {
		log.Fatal(err)
	}
	mgr, err := manager.New(election.GatedConfig(), election.Manager(manager.Options{LeaderElection: true}))
	if err != nil {
		log.Fatal(err)
	}
	if err := election.Run(signals.SetupSignalHandler(), mgr); err != nil {
		log.Fatal(err)
	}
}
