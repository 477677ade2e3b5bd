//! What the kernel needs to start a file: the interpreter of a script, the loader of a binary, the right architecture.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// How much of a file the kernel reads to recognise it.
const HEAD_BYTES: u64 = 256;

/// The length of the longest path.
const LONGEST_PATH: u64 = 4096;

/// The longest table of program headers that this module reads.
const MOST_SEGMENTS: u16 = 128;

/// The type of the segment that names the loader.
const PT_INTERP: u64 = 3;

/// Architectures that one kernel may run, by their numbers in ELF: x86, Arm, PowerPC and MIPS, in 32 and 64 bits.
const FAMILIES: [&[u16]; 4] = [&[3, 62], &[40, 183], &[20, 21], &[8, 10]];

/// The names of architectures, by their numbers in ELF.
const NAMES: [(u16, &str); 7] =
    [(3, "x86"), (8, "MIPS"), (22, "s390x"), (40, "32-bit Arm"), (62, "x86-64"), (183, "arm64"), (243, "RISC-V")];

/// The format of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A script, with its interpreter and the first argument of the interpreter.
    Script { interpreter: PathBuf, argument: Vec<u8> },
    /// A binary for this kernel, with its loader.
    Binary { loader: Option<PathBuf> },
    /// A binary for another architecture.
    Foreign(String),
    /// The kernel does not know it.
    Unknown,
}

/// The beginning of a binary.
struct Elf {
    is_big_endian: bool,
    is_64_bit: bool,
    machine: u16,
}

/// Reads the format of a file.
///
/// # Errors
/// Fails if the file cannot be read. The kernel can still start it: that needs no permission to read.
pub(super) fn read(path: &Path) -> io::Result<Format> {
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return Ok(script(line));
    }
    let Some(elf) = Elf::read(&head) else { return Ok(Format::Unknown) };
    let own = own()?;
    let family = FAMILIES.iter().find(|family| family.contains(&own.machine));
    let runs = elf.machine == own.machine || family.is_some_and(|family| family.contains(&elf.machine));
    if !runs || elf.is_big_endian != own.is_big_endian {
        return Ok(Format::Foreign(elf.architecture()));
    }
    Ok(Format::Binary { loader: elf.loader(&mut file, &head)? })
}

/// The architecture of this process.
pub(super) fn own_architecture() -> String {
    own().map_or_else(|_| std::env::consts::ARCH.to_owned(), |own| own.architecture())
}

fn own() -> io::Result<Elf> {
    let mut head = Vec::new();
    File::open("/proc/self/exe")?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Elf::read(&head).ok_or_else(|| io::Error::other("/proc/self/exe is not an ELF file"))
}

/// Parses the first line of a script, after `#!`, as the kernel does.
fn script(head: &[u8]) -> Format {
    let line = head.split(|byte| matches!(byte, b'\n' | 0)).next().unwrap_or_default();
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let mut parts = line.get(start..).unwrap_or_default().splitn(2, is_blank);
    let interpreter = parts.next().unwrap_or_default();
    if interpreter.is_empty() {
        return Format::Unknown;
    }
    Format::Script {
        interpreter: OsString::from_vec(interpreter.to_vec()).into(),
        argument: parts.next().unwrap_or_default().trim_ascii().to_vec(),
    }
}

impl Elf {
    fn read(head: &[u8]) -> Option<Self> {
        let rest = head.strip_prefix(b"\x7fELF")?;
        let (is_64_bit, is_big_endian) = (*rest.first()? == 2, *rest.get(1)? == 2);
        let mut elf = Self { is_big_endian, is_64_bit, machine: 0 };
        elf.machine = u16::try_from(elf.number(head, 18, 2)?).ok()?;
        Some(elf)
    }

    fn architecture(&self) -> String {
        let name = NAMES.iter().find(|(machine, _)| *machine == self.machine).map(|(_, name)| *name);
        name.map_or_else(|| format!("architecture {}", self.machine), str::to_owned)
    }

    /// The path of the loader, if the binary is dynamic.
    fn loader(&self, file: &mut File, head: &[u8]) -> io::Result<Option<PathBuf>> {
        let fields = if self.is_64_bit { [(32, 8), (54, 2), (56, 2)] } else { [(28, 4), (42, 2), (44, 2)] };
        let [Some(table), Some(size), Some(count)] = fields.map(|(at, length)| self.number(head, at, length)) else {
            return Ok(None);
        };
        let count = count.min(MOST_SEGMENTS.into());
        file.seek(SeekFrom::Start(table))?;
        let mut segments = Vec::new();
        file.by_ref().take(size * count).read_to_end(&mut segments)?;
        let (offset, length) = if self.is_64_bit { ((8, 8), (32, 8)) } else { ((4, 4), (16, 4)) };
        let is_loader = |segment: &&[u8]| self.number(segment, 0, 4) == Some(PT_INTERP);
        let chunk = usize::try_from(size.max(1)).unwrap_or(usize::MAX);
        let Some(segment) = segments.chunks(chunk).find(is_loader) else { return Ok(None) };
        let (Some(offset), Some(length)) =
            (self.number(segment, offset.0, offset.1), self.number(segment, length.0, length.1))
        else {
            return Ok(None);
        };
        file.seek(SeekFrom::Start(offset))?;
        let mut path = Vec::new();
        file.by_ref().take(length.min(LONGEST_PATH)).read_to_end(&mut path)?;
        path.truncate(path.iter().position(|byte| *byte == 0).unwrap_or(path.len()));
        Ok(Some(OsString::from_vec(path).into()))
    }

    /// The number of `length` bytes at this place.
    fn number(&self, bytes: &[u8], at: usize, length: usize) -> Option<u64> {
        let digits = bytes.get(at..at + length)?;
        let add = |number: u64, digit: &u8| number << 8 | u64::from(*digit);
        Some(if self.is_big_endian { digits.iter().fold(0, add) } else { digits.iter().rev().fold(0, add) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_is_parsed_as_the_kernel_does() {
        for (head, expected) in [
            (&b"/bin/sh\nexit"[..], Some(("/bin/sh", ""))),
            (b" \t/bin/sh -eu \nexit", Some(("/bin/sh", "-eu"))),
            (b"/usr/bin/env python3 -u", Some(("/usr/bin/env", "python3 -u"))),
            (b"/bin/sh\r\nexit", Some(("/bin/sh\r", ""))),
            (b"\nexit", None),
            (b"", None),
        ] {
            let expected = expected.map_or(Format::Unknown, |(interpreter, argument)| Format::Script {
                interpreter: interpreter.into(),
                argument: argument.into(),
            });
            assert_eq!(script(head), expected, "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn a_binary_is_read_in_both_widths_and_byte_orders_and_no_broken_one_panics() {
        assert!(matches!(read(Path::new("/proc/self/exe")).unwrap(), Format::Binary { .. }));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("binary");
        let own = std::fs::read("/proc/self/exe").unwrap();
        let mut broken = own.get(..512).unwrap().to_vec();
        for at in 0..64 {
            for value in [0, 1, 2, 0x7f, 0xff] {
                let former = std::mem::replace(&mut broken[at], value);
                std::fs::write(&path, &broken).unwrap();
                let _ = read(&path);
                broken[at] = former;
            }
        }
        // A loader behind the table of a 32-bit big-endian binary.
        let mut binary = vec![0; 28];
        binary[..6].copy_from_slice(b"\x7fELF\x01\x02");
        binary.extend(52_u32.to_be_bytes());
        binary.resize(42, 0);
        binary.extend([0, 32, 0, 1]);
        binary.resize(52, 0);
        for field in [3_u32, 84, 0, 0, 7, 7, 0, 0] {
            binary.extend(field.to_be_bytes());
        }
        binary.extend(b"/lib/a\0");
        std::fs::write(&path, &binary).unwrap();
        let elf = Elf::read(&binary).unwrap();
        let loader = elf.loader(&mut File::open(&path).unwrap(), &binary).unwrap();
        assert_eq!(loader, Some("/lib/a".into()));
    }
}
