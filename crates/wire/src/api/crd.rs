//! The CRD of LeaseCandidate, and the type that defines it.
//!
//! The spec has the fields of upstream's `coordination.k8s.io/v1beta1` LeaseCandidate under the same names.

#![allow(unreachable_pub, clippy::duplicated_attributes, reason = "both lints misread what the derives write")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use hustings_core::model::Strategy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kube::{CustomResource, CustomResourceExt, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::candidate::LeaseCandidateStatus;
use super::timestamp::MicroTime;

/// The versions, preferences and signs of life of one candidate.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "hustings.io",
    version = "v1alpha1",
    kind = "LeaseCandidate",
    plural = "leasecandidates",
    shortname = "lcand",
    category = "hustings",
    namespaced,
    status = "LeaseCandidateStatus",
    selectable = ".spec.leaseName",
    derive = "Default",
    derive = "PartialEq",
    doc = "LeaseCandidate nominates one replica of a component for one Lease. Its name is the identity under which the replica would hold that Lease.",
    printcolumn(name = "LeaseName", type_ = "string", json_path = ".spec.leaseName"),
    printcolumn(name = "BinaryVersion", type_ = "string", json_path = ".spec.binaryVersion"),
    printcolumn(name = "EmulationVersion", type_ = "string", json_path = ".spec.emulationVersion"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority", priority = 1),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.strategy", priority = 1),
    printcolumn(name = "Renewed", type_ = "date", json_path = ".spec.renewTime", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        format!("has(self.emulationVersion) || (has(self.strategy) && !(self.strategy in ['{}']))", by_emulation("', '")),
    )
    .message(&*format!("emulationVersion is required by the strategies {}", by_emulation(" and ")))
    .reason(Reason::FieldValueRequired)
    .field_path(".emulationVersion"),
    validation = Rule::new(
        "!has(self.emulationVersion) || !isSemver(self.emulationVersion, true) || !isSemver(self.binaryVersion, true) \
         || semver(self.emulationVersion, true).compareTo(semver(self.binaryVersion, true)) <= 0",
    )
    .message("emulationVersion must not be above binaryVersion")
    .field_path(".emulationVersion")
)]
pub struct LeaseCandidateSpec {
    /// leaseName is the name of the Lease that this candidate stands for, in the same namespace. The Lease need not exist
    /// yet. The name must be a DNS subdomain of at most 253 characters. It is immutable: to stand for another Lease,
    /// create another candidate.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(
        validation = Rule::new("!format.dns1123Subdomain().validate(self).hasValue()")
            .message("leaseName must be a DNS subdomain, as the names of Leases are"),
        validation = Rule::new("self == oldSelf").message("leaseName is immutable: create another candidate instead")
    )]
    pub lease_name: String,
    /// binaryVersion is the semantic version of the running program, such as 1.31.4. A leading "v" and missing minor and
    /// patch parts are allowed (v1.31). Comparisons ignore build metadata (+...). Among candidates of one emulation
    /// version, the one with the lowest binaryVersion is elected; by hustings.io/NewestEmulationVersion, the highest.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(
        validation = Rule::new("isSemver(self, true)").message("binaryVersion must be a semantic version such as 1.31.0")
    )]
    pub binary_version: String,
    /// emulationVersion is the version whose behaviour the program emulates, such as 1.30.0. It has the form of
    /// binaryVersion and must not be above it. Hustings' own strategies require it: OldestEmulationVersion elects the
    /// candidate with the lowest, hustings.io/NewestEmulationVersion the one with the highest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 256))]
    #[x_kube(
        validation = Rule::new("isSemver(self, true)")
            .message("emulationVersion must be a semantic version such as 1.31.0")
    )]
    pub emulation_version: Option<String>,
    /// strategy is the rule that ranks the candidates of a Lease. It is OldestEmulationVersion (the default),
    /// hustings.io/NewestEmulationVersion, or the qualified name (domain/Name) of a strategy that a third party's
    /// controller carries out. The candidates of the highest binaryVersion determine the strategy of the Lease. If they disagree, none is elected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 317), extend("default" = "OldestEmulationVersion"))]
    #[x_kube(
        validation = Rule::new(
            r"self == 'OldestEmulationVersion' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$')",
        )
        .message("strategy must be OldestEmulationVersion or a qualified name, domain/Name")
    )]
    pub strategy: Option<String>,
    /// priority ranks candidates before any strategy does: the one with the highest priority is elected, whatever its
    /// version. It is a whole number from 0, the default, to 2147483647. An administrator may set it; a candidate's own
    /// client leaves it alone unless configured otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 0, max = 2_147_483_647), extend("default" = 0))]
    pub priority: Option<i32>,
    /// pingTime is written by the controller alone, to check whether the candidate is live. The candidate has 5 seconds to
    /// answer by renewTime. Each value is later than the previous one and later than renewTime. It is a time of RFC 3339
    /// with microseconds, such as 2026-01-31T09:30:00.000000Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MicroTime")]
    pub ping_time: Option<MicroTime>,
    /// renewTime is written by the candidate alone, as a sign of life. The candidate answers each pingTime with a value
    /// that is later than its previous one and not earlier than the ping. It has the form of pingTime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MicroTime")]
    pub renew_time: Option<MicroTime>,
}

/// Returns the CRD of LeaseCandidate. Install it once in the cluster. It requires Kubernetes 1.34.
pub fn crd() -> CustomResourceDefinition {
    let mut crd = LeaseCandidate::crd();
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            join_lines(schema);
        }
    }
    crd
}

/// The strategies that need an emulation version.
fn by_emulation(separator: &str) -> String {
    let strategies = Strategy::OURS.iter().filter(|strategy| strategy.needs_emulation_version());
    strategies.map(Strategy::as_str).collect::<Vec<_>>().join(separator)
}

/// Joins the lines of each paragraph of the descriptions. `kubectl explain` wraps long lines, but keeps existing line
/// breaks.
fn join_lines(schema: &mut JSONSchemaProps) {
    if let Some(description) = &mut schema.description {
        let paragraphs: Vec<_> = description.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
        *description = paragraphs.join("\n\n");
    }
    for property in schema.properties.iter_mut().flat_map(BTreeMap::values_mut) {
        join_lines(property);
    }
}

impl JsonSchema for MicroTime {
    fn schema_name() -> Cow<'static, str> {
        "MicroTime".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A fraction may have any number of digits, and a server takes long to check a million of them.
        json_schema!({ "type": "string", "format": "date-time", "maxLength": 64 })
    }
}

#[cfg(test)]
mod tests {
    use kube_core::Resource;

    use super::*;
    use crate::api::ReadCandidate;

    #[test]
    fn candidates_are_read_as_the_resource_that_the_crd_defines() {
        fn names<K: Resource<DynamicType = ()>>() -> [Cow<'static, str>; 4] {
            [K::kind(&()), K::group(&()), K::version(&()), K::plural(&())]
        }
        assert_eq!(names::<ReadCandidate>(), names::<LeaseCandidate>());
    }
}
