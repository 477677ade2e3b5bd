//! The faults, and their frequencies.

/// All faults that the nemesis injects. A fault that occurs several times in this list happens more often.
pub(super) const FAULTS: [Fault; 64] = [
    Fault::Crash,
    Fault::Crash,
    Fault::CrashHolder,
    Fault::CrashMidway,
    Fault::CrashMidway,
    Fault::CrashHolderMidway,
    Fault::CrashHolderMidway,
    Fault::Stop,
    Fault::StopHolder,
    Fault::StopHolder,
    Fault::CrashStopping,
    Fault::Freeze,
    Fault::FreezeHolder,
    Fault::FreezeHolderMidway,
    Fault::FreezeHolderMidway,
    Fault::Cut,
    Fault::CutHolder,
    Fault::CutHolderMidway,
    Fault::Trouble,
    Fault::Trouble,
    Fault::TroubleHolder,
    Fault::FailOver,
    Fault::FailOverHolder,
    Fault::Forge,
    Fault::ForgeHolder,
    Fault::Repeat,
    Fault::RepeatHolder,
    Fault::RepeatHolder,
    Fault::Lag,
    Fault::Lag,
    Fault::RestartServer,
    Fault::Outage,
    Fault::Compact,
    Fault::HangWrites,
    Fault::TakeBack,
    Fault::SetDate,
    Fault::SetDateHolder,
    Fault::Delete,
    Fault::Edit,
    Fault::Upgrade,
    Fault::HangHolder,
    Fault::Stall,
    Fault::StallHolder,
    Fault::Foreign,
    Fault::Pause,
    Fault::Transfer,
    Fault::Transfer,
    Fault::Pin,
    Fault::Exclude,
    Fault::DeleteCandidate,
    Fault::EditCandidate,
    Fault::Dissent,
    Fault::CrashController,
    Fault::CrashControllerMidway,
    Fault::StopController,
    Fault::FreezeController,
    Fault::TroubleController,
    Fault::FailOverController,
    Fault::ForgeController,
    Fault::RepeatController,
    Fault::SetDateController,
    Fault::SecondController,
    Fault::Revert,
    Fault::Revert,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Crash,
    CrashHolder,
    CrashMidway,
    CrashHolderMidway,
    CrashStopping,
    Stop,
    StopHolder,
    Freeze,
    FreezeHolder,
    FreezeHolderMidway,
    Cut,
    CutHolder,
    CutHolderMidway,
    Trouble,
    TroubleHolder,
    FailOver,
    FailOverHolder,
    Forge,
    ForgeHolder,
    Repeat,
    RepeatHolder,
    Lag,
    RestartServer,
    Outage,
    Compact,
    HangWrites,
    TakeBack,
    SetDate,
    SetDateHolder,
    Delete,
    Edit,
    Upgrade,
    HangHolder,
    Stall,
    StallHolder,
    Foreign,
    Pause,
    Transfer,
    Pin,
    Exclude,
    DeleteCandidate,
    EditCandidate,
    Dissent,
    CrashController,
    CrashControllerMidway,
    StopController,
    FreezeController,
    TroubleController,
    FailOverController,
    ForgeController,
    RepeatController,
    SetDateController,
    SecondController,
    Revert,
}

/// The names of all faults.
pub fn faults() -> impl Iterator<Item = &'static str> {
    FAULTS.iter().map(|fault| fault.as_str())
}

impl Fault {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Crash | Self::CrashHolder => "crash",
            Self::CrashMidway | Self::CrashHolderMidway => "crash at some await",
            Self::CrashStopping => "crash while it stops",
            Self::Stop | Self::StopHolder => "stop",
            Self::Freeze | Self::FreezeHolder => "freeze",
            Self::FreezeHolderMidway => "freeze at some await",
            Self::Cut | Self::CutHolder => "partition",
            Self::CutHolderMidway => "partition at some await",
            Self::Trouble | Self::TroubleHolder => "trouble",
            Self::FailOver | Self::FailOverHolder => "silent failover",
            Self::Forge | Self::ForgeHolder => "proxy that answers in the server's place",
            Self::Repeat | Self::RepeatHolder => "writes delivered twice",
            Self::Lag => "lag of an API server",
            Self::RestartServer => "restart of an API server",
            Self::Outage => "outage",
            Self::Compact => "compaction",
            Self::HangWrites => "writes that hang",
            Self::TakeBack => "writes that do not stick",
            Self::SetDate | Self::SetDateHolder => "step of a date",
            Self::Delete => "deletion",
            Self::Edit => "edit",
            Self::Upgrade => "rolling upgrade",
            Self::HangHolder => "work that does not stop",
            Self::Stall | Self::StallHolder => "log that nobody reads",
            Self::Foreign => "foreign elector",
            Self::Pause => "pause",
            Self::Transfer => "transfer",
            Self::Pin => "pin",
            Self::Exclude => "exclusion",
            Self::DeleteCandidate => "deletion of a candidate",
            Self::EditCandidate => "edit of a candidate",
            Self::Dissent => "dissent of a candidate",
            Self::CrashController => "crash of a controller",
            Self::CrashControllerMidway => "crash of a controller at some await",
            Self::StopController => "stop of a controller",
            Self::FreezeController => "freeze of a controller",
            Self::TroubleController => "trouble of a controller",
            Self::FailOverController => "silent failover of a controller",
            Self::ForgeController => "proxy that answers a controller in the server's place",
            Self::RepeatController => "writes of a controller delivered twice",
            Self::SetDateController => "step of a controller's date",
            Self::SecondController => "second controller",
            Self::Revert => "operator that reverts writes",
        }
    }

    pub(super) const fn is_of_world(self) -> bool {
        matches!(
            self,
            Self::Lag
                | Self::RestartServer
                | Self::Outage
                | Self::Compact
                | Self::HangWrites
                | Self::TakeBack
                | Self::CrashController
                | Self::CrashControllerMidway
                | Self::StopController
                | Self::FreezeController
                | Self::TroubleController
                | Self::FailOverController
                | Self::ForgeController
                | Self::RepeatController
                | Self::SetDateController
                | Self::SecondController
        )
    }

    /// Whether the fault costs no healthy holder its term.
    pub(super) const fn is_slight(self) -> bool {
        matches!(
            self,
            Self::FailOver
                | Self::FailOverHolder
                | Self::FailOverController
                | Self::Forge
                | Self::ForgeHolder
                | Self::ForgeController
                | Self::Repeat
                | Self::RepeatHolder
                | Self::RepeatController
                | Self::SetDate
                | Self::SetDateHolder
                | Self::SetDateController
        )
    }

    pub(super) const fn is_of_holder(self) -> bool {
        matches!(
            self,
            Self::CrashHolder
                | Self::CrashHolderMidway
                | Self::CrashStopping
                | Self::StopHolder
                | Self::FreezeHolder
                | Self::FreezeHolderMidway
                | Self::CutHolder
                | Self::CutHolderMidway
                | Self::TroubleHolder
                | Self::FailOverHolder
                | Self::ForgeHolder
                | Self::RepeatHolder
                | Self::SetDateHolder
                | Self::HangHolder
                | Self::StallHolder
        )
    }
}
