//! The example of `docs/abi.md`: the module answers what the page says.

#![allow(clippy::unwrap_used, reason = "a test")]

use hustings_wasm::Module;
use serde_json::Value;

/// The wall clock at the beginning of the example.
const WALL: i64 = 1_800_000_000_000_000;

/// The blocks of JSON in the page.
fn blocks() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/abi.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```json\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect()
}

/// Whether `shown` is a part of `whole`: the page leaves fields out.
fn is_part(shown: &Value, whole: &Value) -> bool {
    match (shown, whole) {
        (Value::Object(shown), Value::Object(_)) => shown.iter().all(|(name, value)| is_part(value, &whole[name])),
        (Value::Array(shown), Value::Array(whole)) => {
            shown.len() == whole.len() && shown.iter().zip(whole).all(|(shown, whole)| is_part(shown, whole))
        }
        _ => shown == whole,
    }
}

/// The bytes of an input: nothing for null.
fn bytes(input: &Value) -> Vec<u8> {
    if input.is_null() { Vec::new() } else { input.to_string().into_bytes() }
}

#[test]
fn the_configurations_of_the_page_are_valid() {
    let mut module = Module::default();
    let config = &blocks()[0];
    let answer: Value = serde_json::from_str(&module.create(1, WALL, config.as_bytes())).unwrap();
    assert_eq!(answer["elector"], 1, "{answer}");
}

#[test]
fn the_example_of_the_page_is_what_the_module_answers() {
    let example = blocks().pop().unwrap();
    let mut module = Module::default();
    let mut decisions = 0;
    for line in example.lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        let at = call["atUs"].as_i64().unwrap();
        let (answer, expected) = if call["config"].is_null() {
            decisions += 1;
            (module.step(1, at, WALL + at, 0, &bytes(&call["head"]), &bytes(&call["body"])), &call["decision"])
        } else {
            (module.create(at, WALL + at, &bytes(&call["config"])), &call["answer"])
        };
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(is_part(expected, &answer), "at {at} us the module answers {answer}");
    }
    assert!(decisions > 3);
}
