//! Checks that the command can be started, before this replica stands for the Lease. A replica that cannot do the work
//! must not take the Lease from one that can.

mod format;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use self::format::Format;
use crate::base::hint::Hinted;

/// The exit code of shells for a program that does not exist.
pub(super) const NOT_FOUND: u8 = 127;

/// The exit code of shells for a file that is not executable.
pub(super) const NOT_EXECUTABLE: u8 = 126;

/// The search path if `PATH` is not set, as for `execvp`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// How many scripts may interpret one another; the kernel's own limit.
const MOST_INTERPRETERS: usize = 5;

/// A program that cannot be started.
#[derive(Debug, PartialEq, Eq)]
enum Unstartable {
    /// The file does not exist.
    NotFound(OsString),
    /// The file exists but is not executable.
    NotExecutable(PathBuf),
    /// The path is a directory.
    Directory(PathBuf),
    /// The first line of a script names an interpreter that does not exist.
    NoInterpreter(PathBuf, OsString),
    /// A binary names a loader that does not exist.
    NoLoader(PathBuf, PathBuf),
    /// A binary for this architecture, which the machine does not have.
    Foreign(PathBuf, String),
    /// Neither a binary nor a script with a first line that names its interpreter.
    UnknownFormat(PathBuf),
}

impl Unstartable {
    /// The exit code of the wrapper.
    const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) | Self::NoInterpreter(..) | Self::NoLoader(..) => NOT_FOUND,
            Self::NotExecutable(_) | Self::Directory(_) | Self::Foreign(..) | Self::UnknownFormat(_) => NOT_EXECUTABLE,
        }
    }

    /// How to fix it.
    fn hint(&self) -> &'static str {
        match self {
            Self::NotFound(_) | Self::Directory(_) => "pass the path of a program, or the name of one in PATH",
            Self::NotExecutable(_) => "pass a file that this user may execute",
            Self::NoInterpreter(_, interpreter) if interpreter.as_bytes().ends_with(b"\r") => {
                "save the script with Unix line ends: its first line ends with a carriage return"
            }
            Self::NoInterpreter(..) => "install the interpreter, or correct the first line of the script",
            Self::NoLoader(..) => "use a static binary, or an image with the C library for which it was built",
            Self::Foreign(..) => "use the binary for the architecture of this machine",
            Self::UnknownFormat(_) => "begin a script with its interpreter, such as #!/bin/sh",
        }
    }
}

impl fmt::Display for Unstartable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(name) => write!(f, "program {} was not found", name.to_string_lossy()),
            Self::NotExecutable(path) => write!(f, "{} is not executable", path.display()),
            Self::Directory(path) => write!(f, "{} is a directory", path.display()),
            Self::NoInterpreter(path, interpreter) => write!(
                f,
                "the script {} cannot be started: its interpreter {} was not found",
                path.display(),
                interpreter.to_string_lossy().escape_debug()
            ),
            Self::NoLoader(path, loader) => write!(
                f,
                "{} cannot be started: it needs the loader {}, which does not exist",
                path.display(),
                loader.display()
            ),
            Self::Foreign(path, architecture) => write!(
                f,
                "{} is built for {architecture}, and this machine is {}",
                path.display(),
                format::own_architecture()
            ),
            Self::UnknownFormat(path) => {
                write!(f, "{} is neither a binary nor a script that names its interpreter", path.display())
            }
        }
    }
}

/// Fails with a hint and an exit code if `program` certainly cannot be started.
pub(super) fn check(program: &OsStr) -> Result<(), Hinted> {
    let path = std::env::var_os("PATH");
    check_in(program, path.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH))).map_err(|unstartable| {
        Hinted::new(unstartable.to_string(), unstartable.hint()).with_exit_code(unstartable.exit_code())
    })
}

fn check_in(program: &OsStr, path: &OsStr) -> Result<(), Unstartable> {
    check_files(program, path, MOST_INTERPRETERS)
}

/// Checks every file of this name in `path`: a later one is tried if the first cannot be started.
fn check_files(program: &OsStr, path: &OsStr, interpreters: usize) -> Result<(), Unstartable> {
    let candidates: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![PathBuf::from(program)]
    } else {
        std::env::split_paths(path).map(|folder| folder.join(program)).collect()
    };
    let mut first = None;
    for candidate in candidates.iter().filter(|candidate| candidate.exists()) {
        match check_file(candidate, path, interpreters) {
            Ok(()) => return Ok(()),
            Err(unstartable) => first = first.or(Some(unstartable)),
        }
    }
    Err(first.unwrap_or_else(|| Unstartable::NotFound(program.to_owned())))
}

fn check_file(file: &Path, path: &OsStr, interpreters: usize) -> Result<(), Unstartable> {
    if file.is_dir() {
        return Err(Unstartable::Directory(file.to_owned()));
    }
    if !file.is_file() || access(file, Access::EXEC_OK).is_err() {
        return Err(Unstartable::NotExecutable(file.to_owned()));
    }
    // A program that this user may execute but not read can still be started.
    let Ok(format) = format::read(file) else { return Ok(()) };
    match format {
        Format::Binary { loader: Some(loader) } if !loader.exists() => {
            Err(Unstartable::NoLoader(file.to_owned(), loader))
        }
        Format::Binary { .. } => Ok(()),
        Format::Foreign(architecture) => Err(Unstartable::Foreign(file.to_owned(), architecture)),
        Format::Unknown => Err(Unstartable::UnknownFormat(file.to_owned())),
        Format::Script { interpreter, argument } => {
            let missing = |interpreter: &OsStr| Unstartable::NoInterpreter(file.to_owned(), interpreter.to_owned());
            if !interpreter.exists() || interpreters == 0 {
                return Err(missing(interpreter.as_os_str()));
            }
            check_file(&interpreter, path, interpreters - 1)?;
            match program_of_env(&interpreter, &argument) {
                Some(program)
                    if matches!(check_files(program, path, interpreters - 1), Err(Unstartable::NotFound(_))) =>
                {
                    Err(missing(program))
                }
                _ => Ok(()),
            }
        }
    }
}

/// The program that a first line such as `#!/usr/bin/env python3` names.
fn program_of_env<'a>(interpreter: &Path, argument: &'a [u8]) -> Option<&'a OsStr> {
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return None;
    }
    let argument = argument.strip_prefix(b"-S").unwrap_or(argument);
    let mut words = argument.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let word = words.find(|word| word.starts_with(b"-") || !word.contains(&b'='))?;
    // What follows another option of `env` is not known here.
    (!word.starts_with(b"-")).then(|| OsStr::from_bytes(word))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let check = |program: &str| check_in(OsStr::new(program), OsStr::new("/nowhere:/proc:/bin"));
        assert_eq!(check("sh"), Ok(()));
        assert_eq!(check("/bin/sh"), Ok(()));
        assert_eq!(check("no-such-program"), Err(Unstartable::NotFound("no-such-program".into())));
        assert_eq!(check("/bin/no-such-program").unwrap_err().exit_code(), 127);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(check(file), Err(Unstartable::NotExecutable(file.into())));
        assert_eq!(check("/bin"), Err(Unstartable::Directory("/bin".into())));
        let unreadable = check_in(OsStr::new("uptime"), OsStr::new("/proc"));
        assert_eq!(unreadable, Err(Unstartable::NotExecutable("/proc/uptime".into())));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sh"), "").unwrap();
        let path = std::env::join_paths([folder.path(), Path::new("/bin")]).unwrap();
        assert_eq!(check_in(OsStr::new("sh"), &path), Ok(()), "a later folder has an executable file");
    }

    #[test]
    fn a_file_that_the_kernel_cannot_start_is_found_out_before_the_election() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let check = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            let error = check_in(path.as_os_str(), OsStr::new("/bin:/usr/bin")).err();
            error.map(|error| (error.exit_code(), error.to_string(), error.hint()))
        };
        for good in [
            "#!/bin/sh\n",
            "#! /bin/sh -eu\n",
            "#!/usr/bin/env sh\n",
            "#!/usr/bin/env -S A=1 sh -eu\n",
            "#!/usr/bin/env --unset=A nosuch\n",
        ] {
            assert_eq!(check(good.as_bytes()), None, "{good:?}");
        }
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(check(&own), None);
        let mut foreign = own.clone();
        // The number of no architecture.
        (foreign[18], foreign[19]) = (0x77, 0x77);
        for (bad, code, reason, hint) in [
            (&b"#!/no/such\nexit"[..], 127, "its interpreter /no/such was not found", "install the interpreter"),
            (b"#!/bin/sh\r\nexit", 127, r"its interpreter /bin/sh\r was not found", "Unix line ends"),
            (b"#!/usr/bin/env nosuch\n", 127, "its interpreter nosuch was not found", "install the interpreter"),
            (b"#!/bin\n", 126, "/bin is a directory", "pass the path"),
            (b"#!/etc/passwd\n", 126, "/etc/passwd is not executable", "may execute"),
            (b"#!\n", 126, "is neither a binary nor a script", "#!/bin/sh"),
            (b"echo text", 126, "is neither a binary nor a script", "#!/bin/sh"),
            (b"", 126, "is neither a binary nor a script", "#!/bin/sh"),
            (&foreign, 126, "is built for architecture 30583, and this machine is", "the binary for the architecture"),
        ] {
            let start = String::from_utf8_lossy(&bad[..bad.len().min(30)]);
            let (actual, message, proposal) = check(bad).unwrap_or_else(|| panic!("{start}"));
            assert_eq!(actual, code, "{start}: {message}");
            assert!(message.contains(reason) && proposal.contains(hint), "{start}: {message}; {proposal}");
        }
        let itself = format!("#!{}\n", path.display());
        assert!(check(itself.as_bytes()).unwrap().1.contains("was not found"), "it does not recur for ever");
        let mut other_loader = own;
        let at = other_loader.windows(4).position(|bytes| bytes == b"/lib").unwrap();
        other_loader[at + 1] = b'L';
        let error = check(&other_loader).unwrap();
        assert!(error.0 == 127 && error.1.contains("it needs the loader /Lib"), "{error:?}");
    }
}
