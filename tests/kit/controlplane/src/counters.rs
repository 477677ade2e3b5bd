//! Counts the requests that the API server has answered, from its own metrics. Tests use the counts to measure the cost
//! of a change.

use anyhow::{Context, Result};
use http::Request;

use crate::plane::ControlPlane;

/// The number of requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCount {
    /// The plural of the kind of object; empty for a path like `/readyz`.
    pub resource: String,
    /// Such as `status`; mostly empty.
    pub subresource: String,
    /// `GET`, `LIST`, `WATCH`, `POST`, `PUT`, `PATCH`, `DELETE`, ...
    pub verb: String,
    /// The HTTP status that was answered; 0 for watches that have ended.
    pub code: u16,
    /// The number.
    pub count: u64,
}

impl ControlPlane {
    /// The requests that the API server has answered since its start.
    pub async fn request_counts(&self) -> Result<Vec<RequestCount>> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = self.admin().request_text(request).await.context("cannot read the API server's metrics")?;
        text.lines().filter(|line| line.starts_with("apiserver_request_total{")).map(RequestCount::read).collect()
    }
}

impl RequestCount {
    /// The requests since `before`.
    pub fn since(before: &[Self], now: Vec<Self>) -> Vec<Self> {
        let is_same = |one: &Self, other: &Self| Self { count: other.count, ..one.clone() } == *other;
        let added = now.into_iter().map(|now| {
            let former = before.iter().find(|before| is_same(before, &now)).map_or(0, |before| before.count);
            Self { count: now.count.saturating_sub(former), ..now }
        });
        added.filter(|added| added.count > 0).collect()
    }

    fn read(line: &str) -> Result<Self> {
        let (labels, value) = line.rsplit_once(' ').context("a line without a value")?;
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\"")).unwrap_or_default();
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        Ok(Self {
            // The comma distinguishes `resource` from `subresource`.
            resource: label(",resource"),
            subresource: label("subresource"),
            verb: label("verb"),
            code: label("code").parse().unwrap_or(0),
            count: value.parse::<u64>().with_context(|| format!("{line}: no count"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_parses_and_earlier_requests_do_not_count() {
        let line = r#"apiserver_request_total{code="409",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="status",verb="PATCH",version="v1"} 12"#;
        let twelve = RequestCount::read(line).expect("it is well formed");
        let words = (twelve.resource.as_str(), twelve.subresource.as_str(), twelve.verb.as_str());
        assert_eq!((words, twelve.code, twelve.count), (("leases", "status", "PATCH"), 409, 12));
        let seven = RequestCount { count: 7, ..twelve.clone() };
        let other = RequestCount { code: 200, ..twelve.clone() };
        let since = RequestCount::since(&[seven], vec![twelve.clone(), other.clone()]);
        assert_eq!(since, [RequestCount { count: 5, ..twelve.clone() }, other]);
        assert_eq!(RequestCount::since(std::slice::from_ref(&twelve), vec![twelve.clone()]), []);
    }
}
