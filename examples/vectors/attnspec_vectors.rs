//! Judge kernels by the vectors that `attnspec vectors` wrote. Copy this file; it needs the standard library alone.
//!
//!     fn softmax(v: &Vector) -> Taken {
//!         if !v.only(&["x"]) { return None; }                      // what a kernel does not take
//!         let x = v.input("x").unwrap();
//!         Some(vec![("p", my_softmax(&x.floats(), &x.shape))])     // entries in C order, in any number type as f64
//!     }
//!     fn main() { attnspec_vectors::main(&[("softmax", &softmax)]) }
//!
//! The program takes [-v] DIR and ends with 0 if all is right, 1 if not, 4 if DIR cannot be read, 5 if nothing was taken.
#![allow(dead_code)]

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// The error over the bound from which on rounding does not hide a mistake.
const CLEAR: f64 = 2.0;

/// The outputs that a kernel returns, by name; those that it leaves out are not judged, but for the first one.
pub type Taken = Option<Vec<(&'static str, Vec<f64>)>>;
pub type Kernel<'a> = (&'a str, &'a dyn Fn(&Vector) -> Taken);

#[derive(Clone, Default)]
pub struct Tensor {
    pub dtype: String,
    pub shape: Vec<usize>,
    file: Rc<Vec<u8>>,
    start: usize,
    end: usize,
}

impl Tensor {
    /// The entries as they are stored, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.file[self.start..self.end]
    }

    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The entries of any dtype.
    pub fn entries(&self) -> Vec<f64> {
        let bytes = self.bytes();
        let of = |width: usize, entry: &dyn Fn(&[u8]) -> f64| bytes.chunks_exact(width).map(entry).collect();
        let half = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]) as u32;
        match self.dtype.as_str() {
            "F64" => of(8, &|b| f64::from_le_bytes(b.try_into().unwrap())),
            "F32" => of(4, &|b| f32::from_le_bytes(b.try_into().unwrap()) as f64),
            "F16" => of(2, &|b| small_float(half(b), 5, 10, false)),
            "BF16" => of(2, &|b| small_float(half(b), 8, 7, false)),
            "F8_E4M3" => of(1, &|b| small_float(b[0] as u32, 4, 3, true)),
            "F8_E5M2" => of(1, &|b| small_float(b[0] as u32, 5, 2, false)),
            "I64" => of(8, &|b| i64::from_le_bytes(b.try_into().unwrap()) as f64),
            "I8" => of(1, &|b| b[0] as i8 as f64),
            "U8" | "BOOL" => of(1, &|b| b[0] as f64),
            other => fail(&format!("unknown dtype {other}")),
        }
    }

    /// The entries as float32, which is exact for every dtype but F64 and I64.
    pub fn floats(&self) -> Vec<f32> {
        self.entries().iter().map(|&x| x as f32).collect()
    }
}

fn small_float(bits: u32, exponent_bits: u32, fraction_bits: u32, last_is_nan: bool) -> f64 {
    let (bias, most) = ((1i32 << (exponent_bits - 1)) - 1, (1u32 << exponent_bits) - 1);
    let (exponent, full) = (bits >> fraction_bits & most, (1u32 << fraction_bits) - 1);
    let fraction = bits & full;
    let part = fraction as f64 / (1u32 << fraction_bits) as f64;
    let size = match exponent {
        0 => part * 2f64.powi(1 - bias),
        e if e == most && last_is_nan && fraction == full => f64::NAN,
        e if e == most && !last_is_nan => if fraction > 0 { f64::NAN } else { f64::INFINITY },
        e => (1.0 + part) * 2f64.powi(e as i32 - bias),
    };
    if bits >> (exponent_bits + fraction_bits) & 1 == 1 { -size } else { size }
}

/// A call, and what the definition says of it.
#[derive(Clone, Default)]
pub struct Vector {
    pub name: String,
    pub law: String,
    pub case: String,
    pub dtype: String,
    pub sizes: HashMap<String, usize>,
    /// The options that are passed, as JSON.
    pub options: HashMap<String, String>,
    /// The conventions that the result depends on, with the word that is followed.
    pub conventions: HashMap<String, String>,
    pub inputs: HashMap<String, Tensor>,
    outputs: Vec<(String, Tensor, Tensor)>,
    refutes: HashMap<(String, String), f64>,
}

impl Vector {
    /// Whether no other inputs and options are passed than these.
    pub fn only(&self, names: &[&str]) -> bool {
        self.inputs.keys().chain(self.options.keys()).all(|name| names.contains(&name.as_str()))
    }

    pub fn input(&self, name: &str) -> Option<&Tensor> {
        self.inputs.get(name)
    }

    pub fn number(&self, option: &str) -> Option<f64> {
        self.options.get(option).and_then(|text| text.parse().ok())
    }

    pub fn flag(&self, option: &str) -> bool {
        self.options.get(option).is_some_and(|text| text == "true")
    }

    pub fn text(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(|text| text.trim_matches('"'))
    }
}

/// Entries of an output of a call, moved and multiplied; without `places`, every entry as it is.
struct Term {
    right: bool,
    call: usize,
    output: String,
    factor: f64,
    factors: Option<Vec<f64>>,
    places: Option<Vec<f64>>,
}

/// Several calls, and how their results stand to one another.
#[derive(Default)]
struct Relation {
    calls: Vec<Vector>,
    kind: String,
    shape: Vec<usize>,
    constants: [Option<Vec<f64>>; 2],
    bound: Option<Vec<f64>>,
    terms: Vec<Term>,
}

impl Relation {
    /// The entries of a side: a constant and terms, which are added in their order.
    fn side(&self, right: bool, outputs: &[Vec<(&'static str, Vec<f64>)>]) -> Vec<f64> {
        let count = self.shape.iter().product();
        let mut sums = self.constants[right as usize].clone().unwrap_or(vec![0.0; count]);
        for term in self.terms.iter().filter(|term| term.right == right) {
            let (_, y) = outputs[term.call].iter().find(|(name, _)| *name == term.output).unwrap();
            for (i, sum) in sums.iter_mut().enumerate() {
                let place = term.places.as_ref().map_or(i as f64, |places| places[i]);
                if place >= 0.0 {
                    *sum += term.factors.as_ref().map_or(term.factor, |factors| factors[i]) * y[place as usize];
                }
            }
        }
        sums
    }

    /// The largest error over its bound, and what there is to say of it.
    fn judged(&self, outputs: &[Vec<(&'static str, Vec<f64>)>]) -> (f64, String) {
        for (call, returned) in self.calls.iter().zip(outputs) {
            for (name, y) in returned {
                let expected = call.outputs.iter().find(|(own, _, _)| own == name).map(|(_, shape, _)| shape.count());
                if expected.is_some_and(|count| count != y.len()) {
                    return (f64::INFINITY, format!("{name} has {} entries, not {}", y.len(), expected.unwrap()));
                }
            }
        }
        let (left, right) = (self.side(false, outputs), self.side(true, outputs));
        let differ = self.kind == "differ";
        let (mut found, mut same) = ((0, 0.0), true);
        let bounds = self.bound.clone().unwrap_or(vec![0.0; left.len()]);
        for (i, (&x, &y)) in left.iter().zip(&right).enumerate() {
            let both = x.is_nan() && y.is_nan() && (bounds[i].is_nan() || differ);
            let (gap, fine) = if self.kind == "at_most" { (x - y, x <= y) } else { ((x - y).abs(), x == y) };
            let units = units(gap, bounds[i], fine || both);
            same &= fine || both;
            if units > found.1 && !differ {
                found = (i, units);
            }
        }
        if differ {
            let says = format!("the results are {}", if same { "the same" } else { "not the same" });
            return (if same { f64::INFINITY } else { 0.0 }, says);
        }
        let (at, excess) = found;
        if left.is_empty() {
            return (0.0, "one side is empty".to_string());
        }
        let sides = format!("{:.6e}, the other {:.6e}", left[at], right[at]);
        let over = format!("{excess:.3e} x the bound {:.2e}", bounds[at]);
        (excess, format!("one side{} is {sides}: {over}", place(at, &self.shape)))
    }
}

/// An error over its bound.
fn units(gap: f64, bound: f64, fine: bool) -> f64 {
    if fine || bound.is_infinite() {
        0.0
    } else if gap.is_nan() || bound.is_nan() || bound == 0.0 {
        f64::INFINITY
    } else {
        gap / bound
    }
}

/// The worst entry: its place, and its error over its bound.
fn worst(got: &[f64], expected: &[f64], bound: &[f64]) -> (usize, f64) {
    let mut found = (0, 0.0);
    if got.len() != expected.len() {
        return (0, f64::INFINITY);
    }
    for (i, (&y, (&x, &bound))) in got.iter().zip(expected.iter().zip(bound)).enumerate() {
        let units = units((y - x).abs(), bound, y == x || (y.is_nan() && x.is_nan()));
        if units > found.1 {
            found = (i, units);
        }
    }
    found
}

/// Whether an error may be that of a mistake, of which 0 says that it is not refuted.
fn like(excess: f64, known: f64) -> bool {
    if excess <= 1.0 {
        known <= CLEAR
    } else if known == 0.0 || excess.is_infinite() || known.is_infinite() {
        known == excess
    } else {
        (excess - known).abs() <= CLEAR + 0.25 * excess.max(known)
    }
}

/// A mechanism in a dtype: how a kernel has fared on its vectors.
#[derive(Default)]
struct Group {
    mechanism: String,
    dtype: String,
    operator: String,
    file: Rc<Vec<u8>>,
    candidates: Vec<(String, String, usize)>,
    outputs: usize,
    taken: usize,
    skipped: usize,
    failed: usize,
}

impl Group {
    fn call(&mut self, v: &Vector, kernel: &dyn Fn(&Vector) -> Taken, verbose: bool) {
        let Some(returned) = kernel(v) else {
            self.skipped += 1;
            return;
        };
        self.taken += 1;
        let mut shown = (-1.0, String::new());
        for (position, (name, expected, bound)) in v.outputs.iter().enumerate() {
            let Some((_, got)) = returned.iter().find(|(own, _)| own == name) else {
                if position == 0 {
                    fail(&format!("the kernel returns no {name}"));
                }
                continue;
            };
            let (x, bounds) = (expected.entries(), bound.entries());
            let (at, excess) = worst(got, &x, &bounds);
            self.agree(v, name, excess);
            if excess > shown.0 {
                let says = if got.len() != x.len() {
                    format!("{name} has {} entries, not {}", got.len(), x.len())
                } else if x.is_empty() {
                    name.clone()
                } else {
                    let place = place(at, &expected.shape);
                    let over = format!("{excess:.3e} x the bound {:.2e}", bounds[at]);
                    format!("{name}{place} is {:.6e}, expected {:.6e}: {over}", got[at], x[at])
                };
                shown = (excess, says);
            }
        }
        let bad = shown.0 > 1.0;
        self.failed += bad as usize;
        if bad || verbose {
            println!("{} {} {} {}: {}", if bad { "FAIL" } else { "ok  " }, v.name, v.law, v.case, shown.1);
        }
    }

    /// Calls of a kernel, of which the law of a vector says how their results stand to one another.
    fn relate(&mut self, v: &Vector, relation: &Relation, kernel: &dyn Fn(&Vector) -> Taken, verbose: bool) {
        let outputs: Option<Vec<_>> = relation.calls.iter().map(kernel).collect();
        let returned = |call: usize, output: &str| outputs.as_ref().unwrap()[call].iter().any(|(own, _)| *own == output);
        if outputs.is_some() {
            let (main, _, _) = &relation.calls[0].outputs[0];
            if !returned(0, main) {
                fail(&format!("the kernel returns no {main}"));
            }
        }
        if outputs.is_none() || !relation.terms.iter().all(|term| returned(term.call, &term.output)) {
            self.skipped += 1;
            return;
        }
        let (excess, says) = relation.judged(&outputs.unwrap());
        let bad = excess > 1.0;
        self.taken += 1;
        self.failed += bad as usize;
        self.agree(v, "relation", excess);
        if bad || verbose {
            let (mark, count) = (if bad { "FAIL" } else { "ok  " }, relation.calls.len());
            println!("{mark} {} {} {}: of {count} calls: {says}", v.name, v.law, v.case);
        }
    }

    fn agree(&mut self, v: &Vector, output: &str, excess: f64) {
        self.outputs += 1;
        for (candidate, _, agreed) in &mut self.candidates {
            let known = v.refutes.get(&(candidate.clone(), output.to_string())).copied().unwrap_or(0.0);
            *agreed += like(excess, known) as usize;
        }
    }

    fn tell(&self) {
        let skipped = if self.skipped > 0 { format!(", {} not taken", self.skipped) } else { String::new() };
        println!("{} {}: {} of {} vectors fail{skipped}", self.mechanism, self.dtype, self.failed, self.taken);
        if self.failed == 0 {
            return;
        }
        let fits: Vec<_> = self.candidates.iter().filter(|c| c.2 == self.outputs).collect();
        for (name, says, _) in fits.iter().take(3) {
            println!("  like {name}: {says}");
        }
        if fits.is_empty() {
            let nearest = self.candidates.iter().rev().max_by_key(|c| c.2).map(|(name, _, agreed)| {
                format!("; nearest is {name}, on {agreed} of {} outputs", self.outputs)
            });
            println!("  like no known mistake{}", nearest.unwrap_or_default());
        }
    }
}

fn place(at: usize, shape: &[usize]) -> String {
    let (mut left, mut parts) = (at, Vec::new());
    for &size in shape.iter().rev() {
        parts.insert(0, (left % size).to_string());
        left /= size;
    }
    if parts.is_empty() { String::new() } else { format!("[{}]", parts.join(", ")) }
}

/// A shape as one word.
fn shape(word: &str) -> Vec<usize> {
    word.split(',').filter_map(|x| x.parse().ok()).collect()
}

fn fail(what: &str) -> ! {
    eprintln!("attnspec_vectors: {what}");
    std::process::exit(4)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| fail(&format!("{}: {error}", path.display())))
}

/// The tensor of a name in a file of safetensors.
fn tensor(file: &Rc<Vec<u8>>, name: &str) -> Tensor {
    let length = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&file[8..length]).unwrap_or_else(|_| fail("a header is not UTF-8"));
    let key = format!("\"{name}\":{{");
    let Some(at) = header.find(&key) else { fail(&format!("no tensor {name}")) };
    let said = header[at + key.len()..].split('}').next().unwrap();
    let part = |key: &str, end: char| said.split(key).nth(1).and_then(|rest| rest.split(end).next()).unwrap_or("");
    let numbers = |key: &str| part(key, ']').split(',').filter_map(|x| x.parse().ok()).collect::<Vec<usize>>();
    let offsets = numbers("\"data_offsets\":[");
    Tensor {
        dtype: part("\"dtype\":\"", '"').to_string(),
        shape: numbers("\"shape\":["),
        file: file.clone(),
        start: length + offsets[0],
        end: length + offsets[1],
    }
}

/// Judge kernels, by operator, on the vectors of a folder: how many were taken, and how many of them fail.
pub fn check(folder: &Path, kernels: &[Kernel], verbose: bool) -> (usize, usize) {
    let index = String::from_utf8(read(&folder.join("index.txt"))).unwrap_or_else(|_| fail("index.txt is not UTF-8"));
    let mut lines = index.lines();
    if lines.next() != Some("attnspec-vectors 2") {
        fail("this is not a set of vectors of format 2");
    }
    let (mut group, mut vector, mut counts) = (Group::default(), None::<Vector>, (0, 0));
    let mut relation = Relation::default();
    let mut finish = |group: &mut Group, vector: &mut Option<Vector>, relation: &mut Relation, ends: bool| {
        let Some((_, kernel)) = kernels.iter().find(|(name, _)| *name == group.operator) else { return };
        if let Some(v) = vector.take() {
            if relation.calls.is_empty() {
                group.call(&v, kernel, verbose);
            } else {
                group.relate(&v, relation, kernel, verbose);
            }
            *relation = Relation::default();
        }
        if ends {
            group.tell();
            counts = (counts.0 + group.taken, counts.1 + group.failed);
        }
    };
    for line in lines {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (name, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match (kind, &mut vector) {
            ("mechanism", _) => {
                finish(&mut group, &mut vector, &mut relation, true);
                let words: Vec<&str> = rest.split(' ').collect();
                let [mechanism, dtype, operator] = [words[0], words[1], words[3]].map(String::from);
                let used = kernels.iter().any(|(own, _)| *own == operator);
                let file = Rc::new(if used { read(&folder.join(words[4])) } else { Vec::new() });
                group = Group { mechanism, dtype, operator, file, ..Group::default() };
            }
            ("mistake" | "convention", _) => group.candidates.push((name.to_string(), more.to_string(), 0)),
            ("vector" | "relation", _) => {
                finish(&mut group, &mut vector, &mut relation, false);
                let (law, case) = more.split_once(' ').unwrap_or((more, ""));
                let [name, law, case] = [name, law, case].map(String::from);
                let own = Vector { name, law, case, dtype: group.dtype.clone(), ..Vector::default() };
                vector = if group.file.is_empty() { None } else { Some(own) };
            }
            ("call", Some(v)) => relation.calls.push(Vector { refutes: HashMap::new(), ..v.clone() }),
            ("pass", Some(_)) => {
                let found = tensor(&group.file, more);
                relation.calls.last_mut().unwrap().inputs.insert(name.to_string(), found);
            }
            ("result", Some(_)) => {
                let shaped = Tensor { shape: shape(more), ..Tensor::default() };
                relation.calls.last_mut().unwrap().outputs.push((name.to_string(), shaped, Tensor::default()));
            }
            ("compare", Some(_)) => (relation.kind, relation.shape) = (name.to_string(), shape(more)),
            ("constant", Some(_)) => {
                relation.constants[(name == "right") as usize] = Some(tensor(&group.file, more).entries());
            }
            ("bound", Some(_)) => relation.bound = Some(tensor(&group.file, rest).entries()),
            ("term", Some(_)) => {
                let words: Vec<&str> = rest.split(' ').collect();
                let entries = |name: &str| name.contains('/').then(|| tensor(&group.file, name).entries());
                relation.terms.push(Term {
                    right: words[0] == "right",
                    call: words[1].parse().unwrap_or(0),
                    output: words[2].to_string(),
                    factor: words[3].parse().unwrap_or(1.0),
                    factors: entries(words[3]),
                    places: entries(words[4]),
                });
            }
            ("size", Some(v)) => drop(relation.calls.last_mut().unwrap_or(v).sizes.insert(name.to_string(), more.parse().unwrap_or(0))),
            ("option", Some(v)) => drop(relation.calls.last_mut().unwrap_or(v).options.insert(name.to_string(), more.to_string())),
            ("follows", Some(v)) => drop(v.conventions.insert(name.to_string(), more.to_string())),
            ("input", Some(v)) => {
                let found = tensor(&group.file, &format!("{}/{name}", v.name));
                v.inputs.insert(name.to_string(), found);
            }
            ("output", Some(v)) => {
                let [expected, bound] = ["expected", "bound"].map(|end| tensor(&group.file, &format!("{}/{name}.{end}", v.name)));
                v.outputs.push((name.to_string(), expected, bound));
            }
            ("refutes", Some(v)) => {
                let (output, excess) = more.split_once(' ').unwrap_or((more, "0"));
                v.refutes.insert((name.to_string(), output.to_string()), excess.parse().unwrap_or(f64::INFINITY));
            }
            _ => {}
        }
    }
    finish(&mut group, &mut vector, &mut relation, true);
    counts
}

/// The command line of a check.
pub fn main(kernels: &[Kernel]) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = words.last() else { fail("usage: [-v] DIR") };
    let (taken, failed) = check(Path::new(folder), kernels, words[0] == "-v");
    std::process::exit(if failed > 0 { 1 } else if taken > 0 { 0 } else { 5 })
}
