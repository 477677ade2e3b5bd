//! The processes of this machine, as `/proc` tells them.

use std::collections::HashMap;
use std::fs;

use rustix::process::Pid;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    pub(super) is_zombie: bool,
}

impl Process {
    /// Whether it was started with an environment variable that begins so. One may clear or overwrite its environment.
    pub(super) fn was_given(&self, beginning: &[u8]) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", self.pid.as_raw_nonzero())).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(beginning))
    }
}

/// Every process that can be seen. One that comes or goes meanwhile may or may not be among them.
pub(super) fn all() -> std::io::Result<Vec<Process>> {
    let names = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    // The name of a program may be any bytes.
    let stats = numbers.filter_map(|number| fs::read(format!("/proc/{number}/stat")).ok());
    Ok(stats.filter_map(|stat| read(&String::from_utf8_lossy(&stat))).collect())
}

/// Those of `all` that descend from `ancestor`.
pub(super) fn descendants(all: &[Process], ancestor: Pid) -> Vec<Process> {
    let mut children: HashMap<Pid, Vec<Process>> = HashMap::new();
    for process in all {
        if let Some(parent) = process.parent {
            children.entry(parent).or_default().push(*process);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        // Removed, so that even a list that contradicts itself comes to an end.
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.pid);
            found.push(child);
        }
    }
    found
}

/// Reads `/proc/PID/stat`: number, name in parentheses, state, parent, group.
fn read(stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let pid = head.split_once(' ')?.0.parse().ok().and_then(Pid::from_raw)?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    // -1 stands for those of a process that is just being reaped.
    let mut number = || fields.next()?.parse().ok().map(|number: i32| Pid::from_raw(number.max(0)));
    Some(Process { pid, parent: number()?, group: number()?, is_zombie: state == "Z" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn a_name_may_have_anything_in_it() {
        let process = read("12 (a) Z (b) 3 4) Z 7 12 12 0 -1 4194304").unwrap();
        let expected = Process { pid: pid(12), parent: Some(pid(7)), group: Some(pid(12)), is_zombie: true };
        assert_eq!(process, expected);
        assert_eq!(read("1 (init) S 0 1 1 0").unwrap().parent, None);
        assert_eq!(read("12 (a) Z 0 -1 -1 0").unwrap().group, None);
        for broken in ["", "12", "12 (a", "12 (a) S", "x (a) S 1 1"] {
            assert_eq!(read(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_nobody_else() {
        let process =
            |number, parent| Process { pid: pid(number), parent: Some(pid(parent)), group: None, is_zombie: false };
        // 8 and 9 say that they are each other's parent.
        let all = [process(4, 3), process(3, 2), process(5, 1), process(8, 9), process(9, 8), process(6, 4)];
        let mut found: Vec<_> = descendants(&all, pid(2)).iter().map(|process| process.pid).collect();
        found.sort_by_key(|pid| pid.as_raw_nonzero());
        assert_eq!(found, [3, 4, 6].map(pid));
    }

    #[test]
    fn this_process_is_among_all_and_has_the_environment_that_it_was_given() {
        let me = rustix::process::getpid();
        let me = all().unwrap().into_iter().find(|process| process.pid == me).unwrap();
        assert!(me.was_given(b"PATH=") && !me.was_given(b"ATH=") && !me.was_given(b"NO_SUCH_VARIABLE="));
    }
}
