//! Builds several missing programs side by side. The first build takes minutes, so this module prints at once what it
//! builds and how long that takes, and then reports progress.

use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::tools::{Program, Tool, Tools, say};

/// The pause between two reports of progress.
const PROGRESS: Duration = Duration::from_secs(30);

impl Tools {
    /// Builds the tools that are missing, side by side: while one build links, the others use the idle cores. Blocks
    /// the thread.
    ///
    /// # Errors
    /// Fails with the first error, after every build has ended.
    pub fn prepare(&self, tools: &[Tool]) -> Result<()> {
        let programs = tools.iter().map(|tool| self.program(*tool)).collect::<Result<Vec<_>>>()?;
        let missing: Vec<_> = programs.into_iter().filter(|program| !program.path.is_file()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut pending: Vec<_> = missing.iter().map(|program| program.tool).collect();
        let minutes = minutes(&pending, thread::available_parallelism().map_or(1, usize::from));
        say(&format!("building {} from their Go modules, once: about {minutes} min on this machine", names(&pending)));
        let _lock = self.lock(&names(&pending))?;
        let started = Instant::now();
        thread::scope(|scope| {
            let (ended, ends) = mpsc::channel();
            for program in &missing {
                let ended = ended.clone();
                scope.spawn(move || {
                    let Program { tool, .. } = program;
                    // The receiver lives until every build has ended.
                    let _ = ended.send((*tool, self.build_if_missing(program)));
                });
            }
            drop(ended);
            let mut result = Ok(());
            loop {
                match ends.recv_timeout(PROGRESS) {
                    Ok((tool, outcome)) => {
                        pending.retain(|other| *other != tool);
                        result = result.and(outcome);
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        say(&format!("still building {} after {} s", names(&pending), started.elapsed().as_secs()));
                    }
                    Err(RecvTimeoutError::Disconnected) => return result,
                }
            }
        })
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
        let demo = [Tool::Etcd, Tool::KubeApiserver, Tool::Helm];
        assert_eq!([1, 2, 8, 64].map(|cores| minutes(&demo, cores)), [8, 4, 1, 1]);
    }
}
