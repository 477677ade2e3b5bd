//! The mode of an elector, as the type of its builder. A setting of one mode does not compile in another mode.

use hustings_core::model::Strategy;

use crate::elector::keys::Key;

/// The builder has no mode yet. [`binary_version`](super::ElectorBuilder::binary_version) and
/// [`direct`](super::ElectorBuilder::direct) choose one.
#[derive(Debug)]
pub struct Undecided;

/// A controller elects among candidates, and the elector has one.
#[derive(Clone, Debug)]
pub struct Coordinated {
    pub(super) binary_version: String,
    pub(super) emulation_version: Option<String>,
    pub(super) strategy: Option<String>,
    pub(super) priority: Option<i32>,
    pub(super) fallback: bool,
}

/// There are no candidates: an elector claims the Lease when it finds it free.
#[derive(Default)]
pub struct Direct {
    pub(super) key: Key,
}

/// The modes in which an elector can stand: [`Coordinated`] and [`Direct`].
///
/// ```no_run
/// # use hustings_client::{Elector, testing::MemoryStore};
/// # let builder = || Elector::in_memory(&MemoryStore::new(), "default", "web").identity("web-0");
/// builder().binary_version("1.31.4").priority(1).build()?;
/// builder().direct().key(7).build()?;
/// # Ok::<_, hustings_client::InvalidElector>(())
/// ```
///
/// These do not compile: a direct elector has no candidate and no priority, a controller ignores keys, and an elector
/// needs a mode.
///
/// ```compile_fail,E0599
/// # use hustings_client::{Elector, testing::MemoryStore};
/// Elector::in_memory(&MemoryStore::new(), "default", "web").direct().priority(1);
/// ```
///
/// ```compile_fail,E0599
/// # use hustings_client::{Elector, testing::MemoryStore};
/// Elector::in_memory(&MemoryStore::new(), "default", "web").binary_version("1.31.4").key(7);
/// ```
///
/// ```compile_fail,E0277
/// # use hustings_client::{Elector, testing::MemoryStore};
/// Elector::in_memory(&MemoryStore::new(), "default", "web").build();
/// ```
#[diagnostic::on_unimplemented(
    message = "the elector has no mode",
    note = "call `.binary_version(..)` to be elected by a controller, or `.direct()` to stand without one"
)]
pub trait Mode: sealed::Sealed {}

/// One of the modes, chosen at run time.
pub enum Chosen {
    /// See [`Coordinated`].
    Coordinated(Coordinated),
    /// See [`Direct`].
    Direct(Direct),
}

mod sealed {
    pub trait Sealed {
        /// This mode as a value.
        fn chosen(self) -> super::Chosen;
    }
}

impl Mode for Coordinated {}

impl sealed::Sealed for Coordinated {
    fn chosen(self) -> Chosen {
        Chosen::Coordinated(self)
    }
}

impl Mode for Direct {}

impl sealed::Sealed for Direct {
    fn chosen(self) -> Chosen {
        Chosen::Direct(self)
    }
}

impl Coordinated {
    pub(super) const fn new(binary_version: String) -> Self {
        Self { binary_version, emulation_version: None, strategy: None, priority: None, fallback: true }
    }

    /// The emulation version. Under a strategy of Hustings it defaults to the binary version.
    pub(super) fn emulation_version(&self) -> Option<String> {
        let strategy = Strategy::read(self.strategy.as_deref());
        let is_required = strategy.is_ok_and(|strategy| strategy.needs_emulation_version());
        self.emulation_version.clone().or_else(|| is_required.then(|| self.binary_version.clone()))
    }
}
