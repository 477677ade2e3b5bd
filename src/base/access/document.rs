//! Reads a kubeconfig file as a tree of JSON values, with the types that kubectl demands.
//!
//! The rule that must hold: an error names the file's line or the field, and never quotes a value. Values may be secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// A value and the path of its field, such as `users[1].user.token`.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    /// `None` if the field is absent or null.
    value: Option<&'a Value>,
    path: &'a str,
}

/// The document of a file. Like kubectl, it reads only the first document. A file without one says nothing.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = decode(bytes)?;
    // YAML allows no tabs in the indentation of a JSON file.
    if text.trim_start().starts_with('{')
        && let Some(Ok(value)) = serde_json::Deserializer::from_str(&text).into_iter().next()
    {
        return Ok(value);
    }
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    let mut unread = text.as_bytes();
    let document = serde_saphyr::read_with_options(&mut unread, options).next().transpose().map_err(|error| {
        let place = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
        format!("is not valid YAML{}", place.unwrap_or_default())
    })?;
    Ok(document.unwrap_or_else(|| Value::Object(Map::new())))
}

/// UTF-8, or UTF-16 with a byte order mark, as some editors write it.
fn decode(bytes: &[u8]) -> Result<String, String> {
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16(&units).ok()
    };
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => std::str::from_utf8(rest).ok().map(str::to_owned),
    };
    text.ok_or_else(|| "is neither UTF-8 nor UTF-16 text".to_owned())
}

impl<'a> Node<'a> {
    /// The root of a document.
    pub(super) const fn root(value: &'a Value) -> Self {
        Self { value: Some(value), path: "" }
    }

    /// Calls `read` with a field of this object.
    pub(super) fn field<T>(self, name: &str, read: impl FnOnce(Node<'_>) -> Result<T, String>) -> Result<T, String> {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        let value = self.object()?.and_then(|object| object.get(name)).filter(|value| !value.is_null());
        read(Node { value, path: &path })
    }

    /// A text; `None` if it is empty or absent, which is the same to kubectl.
    pub(super) fn text(self, name: &str) -> Result<Option<String>, String> {
        self.field(name, |node| match node.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(_) => Err(node.is_not("a string (in quotes)")),
        })
    }

    /// A switch; `false` if it is absent.
    pub(super) fn switch(self, name: &str) -> Result<bool, String> {
        self.field(name, |node| match node.value {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(node.is_not("true or false")),
        })
    }

    /// Bytes in base64, which kubectl checks when it reads the file. `None` if they are empty.
    pub(super) fn bytes(self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let text: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
        self.field(name, |node| STANDARD.decode(text).map_err(|_| node.is_not("valid base64")).map(Some))
            .map(|bytes| bytes.filter(|bytes| !bytes.is_empty()))
    }

    /// The elements of a list.
    pub(super) fn list<T>(
        self,
        name: &str,
        mut read: impl FnMut(Node<'_>) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.field(name, |node| {
            let elements = match node.value {
                None => &[][..],
                Some(Value::Array(elements)) => elements,
                Some(_) => return Err(node.is_not("a list")),
            };
            let each = elements.iter().enumerate().map(|(index, value)| {
                let path = format!("{}[{index}]", node.path);
                read(Node { value: Some(value).filter(|value| !value.is_null()), path: &path })
            });
            each.collect()
        })
    }

    /// A list of texts.
    #[allow(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough")]
    pub(super) fn texts(self, name: &str) -> Result<Vec<String>, String> {
        self.list(name, |node| node.string())
    }

    /// The names and values of an object.
    pub(super) fn entries<T>(
        self,
        name: &str,
        mut read: impl FnMut(Node<'_>, &str) -> Result<T, String>,
    ) -> Result<Vec<(String, T)>, String> {
        self.field(name, |node| {
            let keys = node.object()?.into_iter().flat_map(Map::keys);
            keys.map(|key| Ok((key.clone(), read(node, key)?))).collect()
        })
    }

    /// Fails if the value is neither an object nor absent.
    pub(super) fn object(self) -> Result<Option<&'a Map<String, Value>>, String> {
        match self.value {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) if self.path.is_empty() => Err("is not an object with clusters, users and contexts".to_owned()),
            Some(_) => Err(self.is_not("an object")),
        }
    }

    /// The value itself.
    pub(super) fn value(self) -> Option<Value> {
        self.value.cloned()
    }

    /// Whether the field is present and not null.
    pub(super) const fn is_present(self) -> bool {
        self.value.is_some()
    }

    fn string(self) -> Result<String, String> {
        match self.value {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(self.is_not("a string (in quotes)")),
        }
    }

    fn is_not(self, expected: &str) -> String {
        format!("{} is not {expected}", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "s3cr3t";

    #[test]
    fn a_mistake_is_reported_by_its_line_or_its_field_without_the_value() {
        for (text, expected) in [
            ("users:\n- name: a\n  user:\n    token: [s3cr3t\n", "is not valid YAML at line "),
            ("users:\n- name: a\n   token: \"s3cr3t\n", "is not valid YAML at line "),
            ("token: s3cr3t: s3cr3t", "is not valid YAML at line 1"),
            ("token: *s3cr3t", "is not valid YAML at line 1"),
            ("token: !s3cr3t [", "is not valid YAML at line "),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains(SECRET), "{text:?}: {error}");
        }
        let value = parse(b"token: 12\ndata: s3cr3t!\nflag: s3cr3t\nlist: s3cr3t\nobject: s3cr3t\n").unwrap();
        let node = Node::root(&value);
        for (error, expected) in [
            (node.text("token").unwrap_err(), "token is not a string (in quotes)"),
            (node.bytes("data").unwrap_err(), "data is not valid base64"),
            (node.switch("flag").unwrap_err(), "flag is not true or false"),
            (node.texts("list").unwrap_err(), "list is not a list"),
            (node.field("object", |node| node.text("name")).unwrap_err(), "object is not an object"),
        ] {
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn empty_and_null_count_as_absent_and_the_first_document_counts() {
        let value = parse(b"a: ''\nb: null\nc:\nd: yes\ne: x\n---\ne: y\n").unwrap();
        let node = Node::root(&value);
        let texts = ["a", "b", "c", "e", "f"].map(|name| node.text(name).unwrap());
        assert_eq!(texts, [None, None, None, Some("x".to_owned()), None]);
        assert_eq!((node.switch("d"), node.switch("b"), node.bytes("a")), (Ok(true), Ok(false), Ok(None)));
        for text in ["", "# nothing\n", "{}", "null"] {
            assert_eq!(Node::root(&parse(text.as_bytes()).unwrap()).text("a").ok().flatten(), None, "{text:?}");
        }
    }

    #[test]
    fn json_with_tabs_and_utf_16_are_read() {
        let json = "{\n\t\"a\": \"x\"\n}";
        let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain(json.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        for bytes in [json.as_bytes(), &wide, b"\xef\xbb\xbfa: x"] {
            assert_eq!(Node::root(&parse(bytes).unwrap()).text("a"), Ok(Some("x".to_owned())));
        }
        assert!(parse(&[0xff, 0x00, 0x80]).is_err());
    }
}
