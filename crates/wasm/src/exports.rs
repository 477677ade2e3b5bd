//! The exports of the module: the only unsafe code. An input is read only from a buffer that the host has allocated, so
//! that no pointer of a host can be wrong.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::module::{ABI, Module};

/// The longest buffer, in bytes.
const LONGEST_BUFFER: usize = 32 << 20;

/// The buffers of the host, by their addresses.
type Buffers = BTreeMap<usize, *mut [u8]>;

thread_local! {
    static MODULE: RefCell<Module> = RefCell::default();
    static BUFFERS: RefCell<Buffers> = const { RefCell::new(BTreeMap::new()) };
    static ANSWER: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Returns the version of the interface.
#[unsafe(no_mangle)]
extern "C" fn hustings_abi() -> u32 {
    ABI
}

/// Allocates a buffer for inputs.
#[unsafe(no_mangle)]
extern "C" fn hustings_alloc(len: usize) -> usize {
    let mut buffer = Vec::new();
    if len > LONGEST_BUFFER || buffer.try_reserve_exact(len.max(1)).is_err() {
        return 0;
    }
    buffer.resize(len.max(1), 0_u8);
    let buffer = Box::into_raw(buffer.into_boxed_slice());
    let address = buffer.cast::<u8>() as usize;
    BUFFERS.with_borrow_mut(|buffers| buffers.insert(address, buffer));
    address
}

/// Frees a buffer.
#[unsafe(no_mangle)]
extern "C" fn hustings_free(ptr: usize, len: usize) {
    let buffer = BUFFERS.with_borrow_mut(|buffers| {
        let is_same = buffers.get(&ptr).is_some_and(|buffer| buffer.len() == len.max(1));
        is_same.then(|| buffers.remove(&ptr)).flatten()
    });
    if let Some(buffer) = buffer {
        // SAFETY: it comes from `Box::into_raw`, and nothing else has it: the map no longer does.
        drop(unsafe { Box::from_raw(buffer) });
    }
}

/// Creates an elector.
#[unsafe(no_mangle)]
extern "C" fn hustings_new(moment_us: i64, wall_us: i64, config_ptr: usize, config_len: usize) -> u64 {
    answer(|| {
        let config = input(config_ptr, config_len)?;
        Ok(MODULE.with_borrow_mut(|module| module.create(moment_us, wall_us, &config)))
    })
}

/// Observes an event, and decides.
#[unsafe(no_mangle)]
extern "C" fn hustings_step(
    elector: u32,
    moment_us: i64,
    wall_us: i64,
    draw: u32,
    head_ptr: usize,
    head_len: usize,
    body_ptr: usize,
    body_len: usize,
) -> u64 {
    answer(|| {
        let (head, body) = (input(head_ptr, head_len)?, input(body_ptr, body_len)?);
        Ok(MODULE.with_borrow_mut(|module| module.step(elector, moment_us, wall_us, draw, &head, &body)))
    })
}

/// Forgets an elector.
#[unsafe(no_mangle)]
extern "C" fn hustings_drop(elector: u32) {
    MODULE.with_borrow_mut(|module| module.forget(elector));
}

/// Classifies a request.
#[unsafe(no_mangle)]
extern "C" fn hustings_gate(
    method_ptr: usize,
    method_len: usize,
    target_ptr: usize,
    target_len: usize,
    body_ptr: usize,
    body_len: usize,
    flags: u32,
) -> u32 {
    let text = |ptr, len| input(ptr, len).unwrap_or_default();
    // A body that is not there may say anything.
    let body = input(body_ptr, body_len);
    let flags = if body.is_ok() { flags } else { flags | crate::gate::STREAMS };
    crate::gate(&text(method_ptr, method_len), &text(target_ptr, target_len), &body.unwrap_or_default(), flags)
}

/// Keeps an answer until the next call, and returns where it is.
fn answer(text: impl FnOnce() -> Result<String, &'static str>) -> u64 {
    let text = text().unwrap_or_else(|error| format!(r#"{{"error":"{error}"}}"#));
    ANSWER.with_borrow_mut(|answer| {
        *answer = text;
        (answer.as_ptr() as u64) << 32 | answer.len() as u64
    })
}

/// Copies an input out of a buffer of the host.
fn input(ptr: usize, len: usize) -> Result<Vec<u8>, &'static str> {
    if len == 0 {
        return Ok(Vec::new());
    }
    BUFFERS.with_borrow(|buffers| {
        let buffer = buffers.get(&ptr).filter(|buffer| len <= buffer.len());
        let buffer = *buffer.ok_or("an input is not at the start of a buffer of hustings_alloc that is long enough")?;
        // SAFETY: the buffer is in the map, so it is allocated, initialised and longer than `len`. The host is outside of
        // this call, so nothing writes to it meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len) }.to_vec())
    })
}
