//! Objects from JSON.

use std::fmt::Debug;

use kube::{Api, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Creates an object.
pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}
