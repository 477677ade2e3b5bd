//! What can go wrong, and how often each thing does.

/// Everything that the nemesis does, as often as it stands here.
pub(super) const FAULTS: [Fault; 48] = [
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
    Fault::Lag,
    Fault::Lag,
    Fault::Outage,
    Fault::Compact,
    Fault::HangWrites,
    Fault::TakeBack,
    Fault::SetDate,
    Fault::Delete,
    Fault::Edit,
    Fault::Upgrade,
    Fault::HangHolder,
    Fault::Foreign,
    Fault::Pause,
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
    Lag,
    Outage,
    Compact,
    HangWrites,
    TakeBack,
    SetDate,
    Delete,
    Edit,
    Upgrade,
    HangHolder,
    Foreign,
    Pause,
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
            Self::Forge | Self::ForgeHolder => "proxy that answers 404",
            Self::Lag => "lag of an API server",
            Self::Outage => "outage",
            Self::Compact => "compaction",
            Self::HangWrites => "writes that hang",
            Self::TakeBack => "writes that do not stick",
            Self::SetDate => "date",
            Self::Delete => "deletion",
            Self::Edit => "edit",
            Self::Upgrade => "rolling upgrade",
            Self::HangHolder => "work that does not stop",
            Self::Foreign => "foreign elector",
            Self::Pause => "pause",
            Self::DeleteCandidate => "deletion of a candidate",
            Self::EditCandidate => "edit of a candidate",
            Self::Dissent => "dissent of a candidate",
            Self::CrashController => "crash of a controller",
            Self::CrashControllerMidway => "crash of a controller at some await",
            Self::StopController => "stop of a controller",
            Self::FreezeController => "freeze of a controller",
            Self::TroubleController => "trouble of a controller",
            Self::FailOverController => "silent failover of a controller",
            Self::ForgeController => "proxy that answers a controller 404",
        }
    }

    pub(super) const fn is_of_world(self) -> bool {
        matches!(
            self,
            Self::Outage
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
        )
    }

    /// Whether it costs a healthy holder no term.
    pub(super) const fn is_slight(self) -> bool {
        matches!(
            self,
            Self::FailOver
                | Self::FailOverHolder
                | Self::FailOverController
                | Self::Forge
                | Self::ForgeHolder
                | Self::ForgeController
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
                | Self::HangHolder
        )
    }
}
