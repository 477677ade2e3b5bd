//! The name of the image, with its tag.
//!
//! A name without a registry is short for one of Docker's registry, and containerd knows images by the full name only.

use std::fmt;
use std::str::FromStr;

/// A name with a tag, such as `hustings:0.1.0` or `registry.example.com/platform/hustings:0.1.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    repository: String,
    tag: String,
}

/// A text that is no name of an image with a tag.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an image name with a tag: use lower-case letters, digits and \".-_/\", as in hustings:0.1.0")]
pub struct InvalidName(String);

impl ImageName {
    /// The tag alone.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The name with registry and tag, as the kubelet asks for it.
    pub fn full(&self) -> String {
        let registry = match self.repository.split_once('/') {
            Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => "",
            Some(_) => "docker.io/",
            None => "docker.io/library/",
        };
        format!("{registry}{self}")
    }
}

/// The image that the chart runs if no value names another.
impl Default for ImageName {
    fn default() -> Self {
        Self { repository: "hustings".to_owned(), tag: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

impl FromStr for ImageName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let invalid = || InvalidName(text.to_owned());
        let (repository, tag) = text.rsplit_once(':').ok_or_else(invalid)?;
        let (host, path) = repository.split_once('/').unwrap_or(("", repository));
        let is_word = |word: &str, others: &str| {
            !word.is_empty()
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || others.contains(char::from(b)))
        };
        let is_tag = tag.len() <= 128 && is_word(&tag.to_ascii_lowercase(), "._-") && !tag.starts_with(['.', '-']);
        let is_path = path.split('/').all(|word| is_word(word, "._-"));
        let is_host = !repository.contains('/') || is_word(host, "._-:");
        if is_tag && is_path && is_host {
            Ok(Self { repository: repository.to_owned(), tag: tag.to_owned() })
        } else {
            Err(invalid())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_name_has_a_registry() {
        for (name, full) in [
            ("hustings:0.1.0", "docker.io/library/hustings:0.1.0"),
            ("platform/hustings:0.1.0", "docker.io/platform/hustings:0.1.0"),
            ("registry.example.com/hustings:v1_A", "registry.example.com/hustings:v1_A"),
            ("localhost:5000/hustings:0.1.0", "localhost:5000/hustings:0.1.0"),
            ("localhost/hustings:0.1.0", "localhost/hustings:0.1.0"),
        ] {
            assert_eq!(name.parse::<ImageName>().unwrap().full(), full);
        }
    }

    #[test]
    fn name_without_a_tag_is_rejected() {
        for name in
            ["hustings", "localhost:5000/hustings", "Hustings:1", "hustings:", ":1", "a//b:1", "hustings:-1", "a b:1"]
        {
            let error = name.parse::<ImageName>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name:?} is not an image name with a tag: ")), "{error}");
        }
    }
}
