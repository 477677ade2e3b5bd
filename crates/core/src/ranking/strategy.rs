//! The strategies: their names, and the criteria by which each orders the candidates.

use super::Criterion;
use crate::model::Inadmissible;
use crate::names::{is_dns_subdomain, is_label_text};

/// How candidates are ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// The lowest emulation version first: the default.
    #[default]
    OldestEmulationVersion,
    /// The highest emulation version first.
    NewestEmulationVersion,
    /// A third party's strategy, `domain/Name`. Hustings elects no candidate under it.
    ThirdParty(String),
}

impl Strategy {
    /// The strategies by which Hustings elects.
    pub const OURS: [Self; 2] = [Self::OldestEmulationVersion, Self::NewestEmulationVersion];

    /// The strategy as objects spell it. Plain names are Kubernetes', so those of Hustings are qualified.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OldestEmulationVersion => "OldestEmulationVersion",
            Self::NewestEmulationVersion => "hustings.io/NewestEmulationVersion",
            Self::ThirdParty(name) => name,
        }
    }

    /// The criteria of this strategy, the strongest first. This list *is* the strategy. Under that of a third party,
    /// nobody is elected, and lists show the candidates in the default order.
    pub const fn merits(&self) -> &'static [Criterion] {
        match self {
            Self::OldestEmulationVersion | Self::ThirdParty(_) => {
                &[Criterion::Priority, Criterion::EmulationVersion, Criterion::BinaryVersion]
            }
            Self::NewestEmulationVersion => {
                &[Criterion::Priority, Criterion::NewerEmulationVersion, Criterion::NewerBinaryVersion]
            }
        }
    }

    /// Whether each candidate must have an emulation version: if this strategy of ours compares it.
    pub fn needs_emulation_version(&self) -> bool {
        let compares = |merit| matches!(merit, &Criterion::EmulationVersion | &Criterion::NewerEmulationVersion);
        !matches!(self, Self::ThirdParty(_)) && self.merits().iter().any(compares)
    }
    /// Parses `spec.strategy`. An absent or empty text means the default.
    ///
    /// # Errors
    /// Fails if the text is neither one of [`OURS`](Self::OURS) nor of the form `domain/Name`.
    pub fn read(text: Option<&str>) -> Result<Self, Inadmissible> {
        let text = match text {
            None | Some("") => return Ok(Self::default()),
            Some(text) => text,
        };
        if let Some(ours) = Self::OURS.into_iter().find(|strategy| strategy.as_str() == text) {
            return Ok(ours);
        }
        match text.split_once('/') {
            Some((domain, name)) if !domain.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self::ThirdParty(text.to_owned()))
            }
            _ => Err(Inadmissible::Strategy(text.to_owned())),
        }
    }

    /// Checks a strategy that a candidate is to ask for.
    ///
    /// # Errors
    /// Fails also if the API server would reject the candidate because of it. Says how to correct the text.
    pub fn check(text: &str) -> Result<(), String> {
        let is_qualified = |(domain, name)| is_dns_subdomain(domain) && is_label_text(name);
        match Self::read(Some(text)) {
            Ok(Self::ThirdParty(name)) if name.split_once('/').is_some_and(is_qualified) => Ok(()),
            Ok(Self::ThirdParty(_)) | Err(_) => Err(format!(
                "{text:?} is not a strategy: use {} or domain/Name, a DNS subdomain and a name",
                Self::default().as_str()
            )),
            Ok(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_partys_strategy_is_a_domain_and_a_name() {
        for text in ["/", "x.io/", "/Y", "x.io/Y/Z", "Y"] {
            assert_eq!(Strategy::read(Some(text)), Err(Inadmissible::Strategy(text.to_owned())));
        }
    }

    #[test]
    fn a_strategy_that_the_api_server_rejects_is_read_and_not_written() {
        for text in ["", "OldestEmulationVersion", "hustings.io/NewestEmulationVersion", "x.io/Y", "a-b.c/Y_1.z"] {
            assert_eq!(Strategy::check(text), Ok(()), "{text}");
        }
        for text in ["My Org/x", "X.io/Y", "x..io/Y", "x.io/-Y", "x.io/Y ", "x.io/\u{e4}"] {
            assert!(Strategy::read(Some(text)).is_ok() && Strategy::check(text).is_err(), "{text}");
        }
    }
}
