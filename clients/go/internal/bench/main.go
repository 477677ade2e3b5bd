// Command bench measures changes of leader with Hustings and with client-go, side by side on one control plane, and
// prints a Markdown table. One process for each replica index has one replica of each Lease, so that a crash is the end
// of a process. See the README of the module for what it needs.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"hustings.io/go/internal/testkit"
)

// A kind is the library that a group uses.
type kind string

const (
	clientGo     kind = "client-go"
	withHustings kind = "Hustings"
)

const namespace = "default"

type bench struct {
	kubeconfig string
	run        string // unique on a control plane that several runs share
	leases     int
	together   int
	groups     int
	rows       []string // in order
	values     map[string]map[kind][]float64
}

func main() {
	if text := os.Getenv(replicaVariable); text != "" {
		var replica replica
		err := json.Unmarshal([]byte(text), &replica)
		if err == nil {
			err = replica.run()
		}
		exit(err)
	}
	b := &bench{run: strconv.FormatInt(time.Now().UnixMilli(), 36), values: map[string]map[kind][]float64{}}
	scenarios := []struct {
		name string
		once bool // more rounds have no further samples worth their time
		run  func(kind) error
	}{
		{"start", true, b.start}, {"crash", false, b.crash}, {"stop", false, b.stop}, {"join", false, b.join},
		{"thaw", false, b.thaw}, {"rest", true, b.rest},
	}
	var names []string
	for _, scenario := range scenarios {
		names = append(names, scenario.name)
	}
	only := flag.String("only", strings.Join(names, ","), "the scenarios")
	rounds := flag.Int("rounds", 1, "how often to run each of crash, stop, join and thaw")
	flag.IntVar(&b.leases, "leases", 20, "how many Leases change at the same instant")
	flag.IntVar(&b.together, "together", 20, "of how many Leases an older version joins at once, in one process")
	flag.Parse()
	wanted := strings.Split(*only, ",")
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			exit(fmt.Errorf("unknown scenario %q: the scenarios are %s", name, strings.Join(names, ", ")))
		}
	}
	if b.leases < 1 || b.together < 1 || *rounds < 1 {
		exit(fmt.Errorf("-leases, -together and -rounds must be at least 1"))
	}
	kubeconfig, stop, err := testkit.Up()
	if err != nil {
		exit(err)
	}
	b.kubeconfig = kubeconfig
	for _, scenario := range scenarios {
		for round := range *rounds {
			if !slices.Contains(wanted, scenario.name) || scenario.once && round > 0 {
				continue
			}
			for _, kind := range []kind{clientGo, withHustings} {
				fmt.Fprintf(os.Stderr, "%s %s: %s, round %d\n", time.Now().Format(time.TimeOnly), scenario.name, kind, round+1)
				if err := scenario.run(kind); err != nil {
					stop()
					exit(fmt.Errorf("%s with %s: %w", scenario.name, kind, err))
				}
			}
		}
	}
	stop()
	b.print()
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (b *bench) startController() (*exec.Cmd, error) {
	command, err := testkit.Controller(b.kubeconfig)
	if err != nil {
		return nil, err
	}
	return command, command.Start()
}

// add adds a duration to a row of the table, in microseconds.
func (b *bench) add(row string, kind kind, micros int64) { b.addValue(row, kind, float64(micros)/1e6) }

func (b *bench) addValue(row string, of kind, value float64) {
	if b.values[row] == nil {
		b.rows, b.values[row] = append(b.rows, row), map[kind][]float64{}
	}
	b.values[row][of] = append(b.values[row][of], value)
}

func (b *bench) print() {
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%s, load average %s, %d Leases, p50 / p95\n\n", time.Now().Format(time.DateOnly),
		strings.Join(strings.Fields(string(load))[:3], " "), b.leases)
	fmt.Printf("| | %s | %s |\n|---|---|---|\n", clientGo, withHustings)
	for _, row := range b.rows {
		fmt.Printf("| %s | %s | %s |\n", row, quantiles(b.values[row][clientGo]), quantiles(b.values[row][withHustings]))
	}
}

// quantiles returns the median and the 95th percentile, or the value if there is one.
func quantiles(values []float64) string {
	if len(values) == 0 {
		return "never"
	}
	slices.Sort(values)
	at := func(quantile float64) string {
		value := values[int(quantile*float64(len(values)-1)+0.5)]
		if value >= 10 {
			return strconv.FormatFloat(value, 'f', 1, 64)
		}
		return strconv.FormatFloat(value, 'f', 3, 64)
	}
	if len(values) == 1 {
		return at(1)
	}
	return at(0.5) + " / " + at(0.95)
}
