package core

// Config is the configuration of an elector. docs/abi.md describes the fields and their defaults.
type Config struct {
	Namespace            string       `json:"namespace"`
	LeaseName            string       `json:"leaseName"`
	Identity             string       `json:"identity"`
	Random               string       `json:"random"`
	Place                *Place       `json:"place,omitempty"`
	Coordinated          *Coordinated `json:"coordinated,omitempty"`
	Direct               *Direct      `json:"direct,omitempty"`
	LeaseDurationSeconds int64        `json:"leaseDurationSeconds"`
	RenewDeadlineUs      int64        `json:"renewDeadlineUs"`
	RetryPeriodUs        int64        `json:"retryPeriodUs"`
	RequestTimeoutUs     int64        `json:"requestTimeoutUs"`
	StopGraceUs          int64        `json:"stopGraceUs"`
	FailOpen             any          `json:"failOpen,omitempty"`
	KeepOnStop           bool         `json:"keepOnStop,omitempty"`
}

// Place is where a process runs.
type Place struct {
	PodUID           string `json:"podUid"`
	Container        string `json:"container"`
	NetworkNamespace string `json:"networkNamespace"`
}

// Coordinated configures coordinated mode.
type Coordinated struct {
	BinaryVersion    string `json:"binaryVersion"`
	EmulationVersion string `json:"emulationVersion,omitempty"`
	Strategy         string `json:"strategy,omitempty"`
	Priority         *int32 `json:"priority,omitempty"`
	Pod              *Pod   `json:"pod,omitempty"`
	Fallback         bool   `json:"fallback"`
}

// Pod is the owner of a candidate.
type Pod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Direct configures direct mode.
type Direct struct {
	Key *int64 `json:"key,string"`
}

// Created is the answer to [Instance.Create].
type Created struct {
	Elector        uint32
	Session        string
	Lock           string
	Warnings       []string
	LongestWriteUs int64
	Error          string
}

// Decision is the answer to [Instance.Step]. A host puts the fields in force in this order.
type Decision struct {
	Leading      *Leading
	Range        *Range
	StopWork     bool
	AbortWork    bool
	Requests     []Request
	Cancel       []uint64
	Holder       *Holder
	HolderChange *HolderChange
	LeaseUID     string
	Obstacle     *Obstacle
	Renewal      *Renewal
	DeadlineUs   *int64
	Timer        *string
	Notes        []Note
	Finished     bool
	Error        string
}

// Leading is the term that this process leads.
type Leading struct {
	Number       uint32
	Token        uint64 `json:",string"`
	ValidUntilUs int64
}

// Range is the wall-clock time that the last term owns.
type Range struct {
	StartUs, EndUs   int64
	FailsOpenUntilUs *int64
}

// Request is a request to the API server.
type Request struct {
	ID           uint64
	Purpose      string
	Method, Path string
	ContentType  *string
	Body         *string
	UntilUs      int64
	Stream       bool
}

// Holder is who holds the Lease.
type Holder struct {
	Identity    string
	ExpiresAtUs *int64
}

// HolderChange is a change of the holder.
type HolderChange struct {
	Former *string
	Holder string
}

// Obstacle keeps an elector from leading until a person acts.
type Obstacle struct{ LeaseName, Text string }

// Renewal is the end of a renewal.
type Renewal struct {
	TookUs    int64
	Succeeded bool
}

// Note is a line for the log.
type Note struct {
	Level, Code, Text string
	Fields            map[string]any
}

// Class is what a request does.
type Class uint32

const (
	// Reads means that the request only reads.
	Reads Class = iota
	// ChangesNothing means that the request is a dry run, or a review of access or of a token.
	ChangesNothing
	// Write means that the request changes something.
	Write
	// Elsewhere means that the request has its effect elsewhere, and may last: exec, attach, portforward, proxy, an upgrade.
	Elsewhere
)

// Event is what an elector observes. The zero Event means that nothing has happened.
type Event struct {
	Event      string  `json:"event,omitempty"`
	ID         uint64  `json:"id,omitempty"`
	Status     int     `json:"status,omitempty"`
	RetryAfter string  `json:"retryAfter,omitempty"`
	Sent       *bool   `json:"sent,omitempty"`
	Text       string  `json:"text,omitempty"`
	Key        *string `json:"key,omitempty"`
	Cause      string  `json:"cause,omitempty"`
}
