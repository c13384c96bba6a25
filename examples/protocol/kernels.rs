//! Softmax in float32 behind attnspec's protocol, with nothing but the standard library.
//!
//!     rustc -O kernels.rs -o kernels && attnspec check 'exec:./kernels'
//!
//! A question is one line of JSON, arrays are in files that it names, and an answer is one line of JSON.

use std::fs;
use std::io::{stdin, stdout, BufRead, Write};

/// x [rows, n]; a row of minus infinities gives zeros.
fn softmax(x: &mut [f32], n: usize) {
    for row in x.chunks_exact_mut(n.max(1)) {
        let high = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let shift = if high == f32::NEG_INFINITY { 0.0 } else { high };
        row.iter_mut().for_each(|entry| *entry = (*entry - shift).exp());
        let total: f32 = row.iter().sum();
        row.iter_mut().for_each(|entry| *entry /= if total > 0.0 { total } else { 1.0 });
    }
}

const CAPABILITIES: &str =
    r#""protocol": 1, "functions": [{"name": "softmax_rust", "operator": "softmax", "dtypes": ["float32"]}]"#;

/// What follows a key in one line of JSON.
fn value_of<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let quoted = format!("\"{key}\": ");
    json.find(&quoted).map(|at| &json[at + quoted.len()..])
}

/// The text that a key has, which has no escapes.
fn text_of<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    value_of(json, key)?.strip_prefix('"')?.split('"').next()
}

/// The whole number that a key has.
fn number_of(json: &str, key: &str) -> Option<usize> {
    let digits = value_of(json, key)?;
    digits[..digits.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

fn error(kind: &str, says: &str) -> String {
    format!(r#""error": {{"kind": "{kind}", "says": "{says}"}}"#)
}

/// What is answered to a call; None for one that is not understood.
fn call(question: &str) -> Option<String> {
    if text_of(question, "function")? != "softmax_rust" {
        return None;
    }
    let x = value_of(value_of(question, "inputs")?, "x")?;
    if text_of(x, "dtype")? != "float32" {
        return Some(error("unsupported", "float32 alone is known"));
    }
    let shape = value_of(x, "shape")?.strip_prefix('[')?.split(']').next()?;
    let sizes: Vec<usize> = shape.split(", ").filter_map(|n| n.parse().ok()).collect();
    let (start, count) = (number_of(x, "offset")?, sizes.iter().product::<usize>());
    let bytes = fs::read(text_of(question, "arrays")?).ok()?;
    let entries = bytes[start..start + 4 * count].chunks_exact(4);
    let mut entries: Vec<f32> = entries.map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect();
    softmax(&mut entries, *sizes.last()?);
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_ne_bytes()).collect();
    fs::write(text_of(question, "results")?, bytes).ok()?;
    Some(format!(r#""outputs": {{"p": {{"dtype": "float32", "shape": [{shape}]}}}}"#))
}

fn main() {
    for line in stdin().lock().lines().map_while(Result::ok) {
        let id = number_of(&line, "id").map_or("null".to_string(), |id| id.to_string());
        let answer = match text_of(&line, "ask") {
            Some("capabilities") => CAPABILITIES.to_string(),
            Some("call") => call(&line).unwrap_or_else(|| error("question", "this call is not understood")),
            _ => error("question", "this is neither capabilities nor call"),
        };
        if writeln!(stdout(), "{{\"id\": {id}, {answer}}}").is_err() {
            return;
        }
    }
}
