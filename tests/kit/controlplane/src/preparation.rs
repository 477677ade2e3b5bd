//! Builds missing programs, those of different modules side by side. The first build takes minutes, so this module
//! prints at once what it builds and how long that takes, and then reports progress.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    go::Packages,
    tools::{Program, Tool, Tools, say},
};

/// The pause between two reports of progress.
const PROGRESS: Duration = Duration::from_secs(15);

impl Tools {
    /// Builds the tools that are missing. Tools of different modules are built side by side: while one build links, the
    /// others use the idle cores. Blocks the thread.
    ///
    /// # Errors
    /// Fails with the first error, after every build has ended.
    pub fn prepare(&self, tools: &[Tool]) -> Result<()> {
        if self.missing(tools)?.is_empty() {
            return Ok(());
        }
        let _lock = self.lock(&names(tools))?;
        // Another process may have built them before this one got the lock.
        let missing = self.missing(tools)?;
        if missing.is_empty() {
            return Ok(());
        }
        let mut pending: Vec<_> = missing.iter().map(|program| program.tool).collect();
        let minutes = minutes(&pending, thread::available_parallelism().map_or(1, usize::from));
        say(&format!("building {} from Go modules, once: about {minutes} min on this machine", names(&pending)));
        let mut builds = BTreeMap::<_, Vec<Program>>::new();
        for program in missing {
            builds.entry(program.path.parent().map(ToOwned::to_owned)).or_default().push(program);
        }
        let (packages, started) = (Packages::default(), Instant::now());
        thread::scope(|scope| {
            let (ended, ends) = mpsc::channel();
            for programs in builds.values() {
                let (ended, packages) = (ended.clone(), &packages);
                scope.spawn(move || {
                    // The receiver lives until every build has ended.
                    let _ = ended.send((programs, self.go_build(programs, packages)));
                });
            }
            drop(ended);
            let mut result = Ok(());
            loop {
                let seconds = || started.elapsed().as_secs();
                match ends.recv_timeout(PROGRESS) {
                    Ok((programs, outcome)) => {
                        let built: Vec<_> = programs.iter().map(|program| program.tool).collect();
                        pending.retain(|tool| !built.contains(tool));
                        if outcome.is_ok() {
                            say(&format!("built {} in {} s", names(&built), seconds()));
                        }
                        result = result.and(outcome);
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        let [compiled, all] =
                            [&packages.compiled, &packages.all].map(|number| number.load(Ordering::Relaxed));
                        let (names, seconds) = (names(&pending), seconds());
                        say(&format!("building {names}: {compiled} of {all} packages compiled after {seconds} s"));
                    }
                    Err(RecvTimeoutError::Disconnected) => return result,
                }
            }
        })
    }

    fn missing(&self, tools: &[Tool]) -> Result<Vec<Program>> {
        let programs = tools.iter().map(|tool| self.program(*tool)).collect::<Result<Vec<_>>>()?;
        Ok(programs.into_iter().filter(|program| !program.path.is_file()).collect())
    }
}

fn names(tools: &[Tool]) -> String {
    tools.iter().map(|tool| tool.name()).collect::<Vec<_>>().join(", ")
}

/// How long the builds take with this number of cores, in whole minutes.
fn minutes(tools: &[Tool], cores: usize) -> usize {
    // Measured on two idle cores with an empty cache, in seconds.
    let seconds = |tool: &Tool| match tool {
        Tool::KubeApiserver => 150,
        Tool::KubeControllerManager => 60,
        Tool::Helm | Tool::Helm3 => 50,
        _ => 20,
    };
    let of_two: usize = tools.iter().map(seconds).sum();
    (2 * of_two).div_ceil(60 * cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_cores_take_less_time_but_at_least_a_minute() {
        let demo = [Tool::Etcd, Tool::KubeApiserver];
        assert_eq!([1, 2, 8, 64].map(|cores| minutes(&demo, cores)), [6, 3, 1, 1]);
    }
}
