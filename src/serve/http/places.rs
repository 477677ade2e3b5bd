//! The places of a server's connections.
//!
//! This rule must hold: a client that sends no request keeps no place from a client that does, such as the kubelet. If
//! all places are taken, the server closes the connection that has waited longest for a request.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};

use super::BUFFER_LIMIT;

/// The places of one listener.
pub(super) struct Places {
    free: Arc<Semaphore>,
    waiting: Arc<Waiting>,
}

/// The connections that wait for a request: new ones, and idle ones. The one that has waited longest comes first.
#[derive(Default)]
struct Waiting {
    closers: Mutex<VecDeque<Arc<Notify>>>,
    has_begun: Notify,
}

/// The place of one connection, which waits for a request except while a [`Serving`] exists.
pub(super) struct ConnectionPlace {
    closer: Arc<Notify>,
    waiting: Arc<Waiting>,
    _permit: OwnedSemaphorePermit,
}

/// Marks a connection that has sent a request, until the answer has been sent.
pub(super) struct Serving(Arc<ConnectionPlace>);

/// The body of an answer, in parts that fit a buffer of hyper: hyper takes the next part only after the client has read
/// most of the one before. The connection waits again once hyper drops the body.
pub(super) struct ServedBody<B> {
    body: B,
    /// What is left of the last frame of `body`.
    rest: Bytes,
    _serving: Serving,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), waiting: Arc::default() }
    }

    /// Takes a place. If all are taken, closes the connection that has waited longest for a request. If no connection
    /// waits for one, waits until one does, or until one ends.
    ///
    /// # Errors
    /// Never fails, since the semaphore is never closed.
    pub(super) async fn take(&self) -> Result<Arc<ConnectionPlace>, AcquireError> {
        let permit = loop {
            let acquired = Arc::clone(&self.free).acquire_owned();
            if self.free.available_permits() > 0 {
                break acquired.await?;
            }
            let oldest = self.waiting.closers().pop_front();
            if let Some(oldest) = oldest {
                oldest.notify_one();
                break acquired.await?;
            }
            tokio::select! {
                permit = acquired => break permit?,
                () = self.waiting.has_begun.notified() => {}
            }
        };
        let place =
            ConnectionPlace { closer: Arc::new(Notify::new()), waiting: Arc::clone(&self.waiting), _permit: permit };
        place.begin_wait();
        Ok(Arc::new(place))
    }
}

impl Waiting {
    fn closers(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.closers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPlace {
    /// Completes when the connection must close, since a new one needs its place.
    pub(super) async fn closed(&self) {
        self.closer.notified().await;
    }

    /// Call this at each request.
    pub(super) fn serve(self: &Arc<Self>) -> Serving {
        self.end_wait();
        Serving(Arc::clone(self))
    }

    fn begin_wait(&self) {
        self.waiting.closers().push_back(Arc::clone(&self.closer));
        self.waiting.has_begun.notify_one();
    }

    fn end_wait(&self) {
        self.waiting.closers().retain(|closer| !Arc::ptr_eq(closer, &self.closer));
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.end_wait();
    }
}

impl Serving {
    /// Keeps this mark until hyper has taken the whole body, or has dropped it.
    pub(super) const fn until_sent<B>(self, body: B) -> ServedBody<B> {
        ServedBody { body, rest: Bytes::new(), _serving: self }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.begin_wait();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ServedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let part = self.rest.len().min(BUFFER_LIMIT);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    /// Hyper asks only before the first part.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body as Answer;
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn the_connection_that_has_waited_longest_is_closed_for_a_new_one() {
        let places = Places::new(3);
        let [first, second, third] = [(); 3].map(|()| places.take());
        let (first, second, third) = (first.await.unwrap(), second.await.unwrap(), third.await.unwrap());
        let serving = first.serve();
        // The second connection has begun to wait again, after the third.
        drop(second.serve());
        let mut next = Box::pin(places.take());
        assert!(futures::poll!(next.as_mut()).is_pending(), "no place is free yet");
        let are_closed = [&first, &second, &third].map(|place| place.closed().now_or_never().is_some());
        assert_eq!(are_closed, [false, false, true]);
        drop(third);
        next.await.unwrap();
        drop(serving);
    }

    #[tokio::test]
    async fn a_new_connection_takes_the_place_of_the_first_one_whose_answer_is_sent() {
        let places = Places::new(1);
        let place = places.take().await.unwrap();
        let serving = place.serve();
        let mut next = Box::pin(places.take());
        assert!(futures::poll!(next.as_mut()).is_pending());
        assert!(place.closed().now_or_never().is_none(), "it is served");
        drop(serving);
        assert!(futures::poll!(next.as_mut()).is_pending());
        assert!(place.closed().now_or_never().is_some());
        drop(place);
        next.await.unwrap();
    }
    #[tokio::test]
    async fn a_long_answer_is_sent_in_parts_and_keeps_the_connection_until_the_last_one() {
        let places = Places::new(1);
        let place = places.take().await.unwrap();
        let text: Vec<u8> = (0..BUFFER_LIMIT * 5 / 2).map(|byte| byte.to_le_bytes()[0]).collect();
        let mut body = place.serve().until_sent(Answer::from(text.clone()));
        assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
        let mut sent = Vec::new();
        while !body.is_end_stream() {
            let part = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            let part = part.unwrap().unwrap().into_data().unwrap();
            assert!((1..=BUFFER_LIMIT).contains(&part.len()));
            sent.extend_from_slice(&part);
        }
        assert_eq!(sent, text);
    }
}
