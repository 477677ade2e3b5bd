//! Lists in pages, so that no answer holds all objects of a large cluster.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Error};
use serde::de::DeserializeOwned;

use crate::base::cluster::limited;

/// The number of objects per page, the same as kubectl's.
const PAGE: u32 = 500;

/// How long a request may take, such as that for one page.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);

/// The pages of one list.
pub(crate) struct Pages<K> {
    api: Api<K>,
    params: ListParams,
    is_over: bool,
}

impl<K: Clone + Debug + DeserializeOwned> Pages<K> {
    /// Creates the pages of the objects that `params` select.
    pub(crate) fn new(api: Api<K>, params: ListParams) -> Self {
        Self { api, params: params.limit(PAGE), is_over: false }
    }

    /// Reads the next page; `None` after the last one.
    ///
    /// # Errors
    /// Fails if the request fails, or if there is no answer in time.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<K>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let list = match self.request().await {
            // The snapshot of the list has expired. The server's token continues the list with the newest state.
            Err(Error::Api(status)) if status.code == 410 => {
                let token = status.metadata.as_ref().and_then(|metadata| metadata.continue_.clone());
                match token.filter(|token| !token.is_empty() && self.params.continue_token.as_ref() != Some(token)) {
                    Some(token) => self.params.continue_token = Some(token),
                    None => return Err(Error::Api(status)),
                }
                self.request().await?
            }
            answer => answer?,
        };
        let token = list.metadata.continue_.filter(|token| !token.is_empty());
        self.is_over = token.is_none();
        self.params.continue_token = token;
        Ok(Some(list.items))
    }

    /// Reads the objects of all pages.
    ///
    /// # Errors
    /// Fails as [`next`](Self::next) does.
    pub(crate) async fn all(mut self) -> Result<Vec<K>, Error> {
        let mut objects = Vec::new();
        while let Some(page) = self.next().await? {
            objects.extend(page);
        }
        Ok(objects)
    }

    async fn request(&self) -> Result<kube::api::ObjectList<K>, Error> {
        limited(TIMEOUT, self.api.list(&self.params)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use hustings_client::api::ReadLease;
    use serde_json::{Value, json};

    use super::*;
    use crate::base::cluster::testing::cluster;

    /// Reads all pages from a server that gives these answers. Returns the names, and the queries of the requests.
    async fn listed(answers: Vec<(u16, Value)>) -> (Result<Vec<String>, Error>, Vec<String>) {
        let answers = Mutex::new(answers.into_iter());
        let (cluster, requests) = cluster(move |_| answers.lock().unwrap().next());
        let pages = Pages::<ReadLease>::new(Api::namespaced(cluster.leases, "n"), ListParams::default());
        let names = pages.all().await.map(|all| all.into_iter().filter_map(|lease| lease.metadata.name).collect());
        let queries = requests.lock().unwrap().iter().map(|sent| sent.path.clone()).collect();
        (names, queries)
    }

    fn page(names: &[&str], token: &str) -> (u16, Value) {
        let items: Vec<_> = names.iter().map(|name| json!({ "metadata": { "name": name } })).collect();
        (200, json!({ "metadata": { "continue": token }, "items": items }))
    }

    fn expired(token: &str) -> (u16, Value) {
        let status = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "",
            "metadata": { "continue": token } });
        (410, status)
    }

    #[tokio::test]
    async fn a_list_continues_after_each_page_and_after_its_snapshot_has_expired() {
        let (names, queries) =
            listed(vec![page(&["a", "b"], "first"), expired("newer"), page(&["c"], "last"), page(&["d"], "")]).await;
        assert_eq!(names.unwrap(), ["a", "b", "c", "d"]);
        assert!(queries.iter().all(|query| query.contains("limit=500")), "{queries:?}");
        let tokens: Vec<_> = queries.iter().map(|query| query.split("continue=").nth(1)).collect();
        assert_eq!(tokens, [None, Some("first"), Some("newer"), Some("last")]);
    }

    #[tokio::test]
    async fn a_list_that_the_server_does_not_continue_fails() {
        let (names, _) = listed(vec![page(&["a"], "first"), expired("")]).await;
        assert!(matches!(names, Err(Error::Api(status)) if status.code == 410));
        let (names, queries) = listed(vec![page(&["a"], "first"), expired("again"), expired("again")]).await;
        assert!(names.is_err() && queries.len() == 3, "it does not ask for ever");
        let (names, queries) = listed(vec![page(&["a"], "first"), expired("first")]).await;
        assert!(names.is_err() && queries.len() == 2, "that token has been refused");
    }
}
