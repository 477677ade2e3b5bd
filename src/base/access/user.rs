//! The user of a context: kubectl's checks, and the credentials that a client gets.
//!
//! The rule that must hold: no message quotes a value of a user, but for its name.

use std::collections::HashMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderName, HeaderValue};
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::choice::{AccessSurroundings, Refusal, readable};
use super::kubeconfig::{AuthProvider, Exec, User};

/// The versions of the protocol with a credential program that have a default for `interactiveMode`.
const WITH_DEFAULT_MODE: [&str; 2] = ["client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1alpha1"];

/// The versions of that protocol.
const EXEC_VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// What client-go escapes in the key of an impersonated user's extra field.
const NO_HEADER_NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// kubectl's checks of a user, whether or not the server gets the credentials.
pub(super) fn check(user: &User, name: &str) -> Result<(), Refusal> {
    let refused = |cause: &str, hint: &str| Err(Refusal::new(format!("user {name:?} {cause}"), hint));
    let has_login = user.username.is_some() || user.password.is_some();
    if user.token.is_some() && has_login {
        return refused("has both a token and a username or password", "remove one of them");
    }
    if user.certificate.is_some() || user.certificate_data.is_some() {
        if user.certificate.is_some() && user.certificate_data.is_some() {
            return refused("has both client-certificate and client-certificate-data", "remove one of them");
        }
        if user.key.is_some() && user.key_data.is_some() {
            return refused("has both client-key and client-key-data", "remove one of them");
        }
        if user.key.is_none() && user.key_data.is_none() {
            return refused("has a client certificate without a key", "set client-key or client-key-data");
        }
        for (path, field) in [(&user.certificate, "client-certificate"), (&user.key, "client-key")] {
            path.as_ref().map_or(Ok(()), |path| readable(path, &format!("{field} of user {name:?}")))?;
        }
    }
    if let Some(exec) = &user.exec {
        check_exec(exec, user, name)?;
    }
    let needs_user = user.act_as_uid.is_some() || !user.act_as_groups.is_empty() || !user.act_as_extra.is_empty();
    if needs_user && user.act_as.is_none() {
        return refused("has as-uid, as-groups or as-user-extra without `as`", "set `as` to the user to impersonate");
    }
    Ok(())
}

fn check_exec(exec: &Exec, user: &User, name: &str) -> Result<(), Refusal> {
    let refused = |cause: &str, hint: &str| Err(Refusal::new(format!("exec of user {name:?} {cause}"), hint));
    if user.auth_provider.is_some() {
        return refused("stands beside an auth-provider", "remove the auth-provider");
    }
    if exec.command.is_none() {
        return refused("has no command", "set `command` to the credential program");
    }
    let Some(version) = exec.api_version.as_deref() else {
        return refused("has no apiVersion", "set it to client.authentication.k8s.io/v1");
    };
    if exec.environment.iter().any(|(name, _)| name.is_empty()) {
        return refused("has an environment variable without a name", "set `name` of each entry of `env`");
    }
    match exec.interactive_mode.as_deref() {
        None if WITH_DEFAULT_MODE.contains(&version) => Ok(()),
        Some("Never" | "IfAvailable" | "Always") => Ok(()),
        None => refused("has no interactiveMode", "set it to Never, IfAvailable or Always"),
        Some(_) => refused("has an unknown interactiveMode", "set it to Never, IfAvailable or Always"),
    }
}

/// The headers by which the user impersonates another.
pub(super) fn impersonation(user: &User, name: &str) -> Result<Vec<(HeaderName, HeaderValue)>, Refusal> {
    let Some(act_as) = &user.act_as else { return Ok(Vec::new()) };
    let headers = [("impersonate-user".to_owned(), act_as)].into_iter();
    let headers = headers.chain(user.act_as_uid.iter().map(|uid| ("impersonate-uid".to_owned(), uid)));
    let headers = headers.chain(user.act_as_groups.iter().map(|group| ("impersonate-group".to_owned(), group)));
    let extra = user.act_as_extra.iter().flat_map(|(key, values)| {
        let key = utf8_percent_encode(key, NO_HEADER_NAME);
        values.iter().map(move |value| (format!("impersonate-extra-{key}"), value))
    });
    let malformed = || {
        let cause = format!("`as` of user {name:?}, or a field beside it, has characters that a header cannot carry");
        Refusal::new(cause, "remove line ends, other control characters, and spaces at both ends")
    };
    let header = |(name, value): (String, &String)| {
        let name = HeaderName::try_from(name).map_err(|_| malformed())?;
        // HTTP/1.1 drops such spaces, so that the server would see another name.
        let has_ends = value.trim_matches([' ', '\t']) == value;
        Ok((name, HeaderValue::from_bytes(value.as_bytes()).ok().filter(|_| has_ends).ok_or_else(malformed)?))
    };
    headers.chain(extra).map(header).collect()
}

pub(super) fn credentials(
    auth: &mut AuthInfo,
    user: &User,
    name: &str,
    surroundings: AccessSurroundings,
) -> Result<(), Refusal> {
    let refused = |cause: &str, hint: &str| Err(Refusal::new(format!("user {name:?} {cause}"), hint));
    let id_token = match &user.auth_provider {
        // A token that has expired is not refreshed here: that needs the provider's own program.
        Some(AuthProvider { name, config }) if name == "oidc" && config.contains_key("id-token") => {
            let missing = |name: &&str| !config.contains_key(*name);
            if let Some(missing) = ["idp-issuer-url", "client-id"].into_iter().find(missing) {
                return refused(&format!("has an auth-provider without {missing}"), "set it in `config`");
            }
            let id_token = config.get("id-token").filter(|token| token.split('.').count() == 3);
            if id_token.is_none() && user.token.is_none() && user.token_file.is_none() {
                return refused("has an auth-provider whose id-token is no JSON web token", "log in again");
            }
            id_token.cloned()
        }
        Some(provider) => {
            let cause = format!("has the auth-provider {:?}, which is not supported", provider.name);
            return refused(&cause, "use a credential program (`exec`) or a token instead");
        }
        None => None,
    };
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
    if user.certificate.is_some() || user.certificate_data.is_some() {
        auth.client_certificate = path(&user.certificate);
        auth.client_certificate_data = user.certificate_data.as_ref().map(|bytes| STANDARD.encode(bytes));
        auth.client_key = path(&user.key);
        auth.client_key_data = user.key_data.as_ref().map(|bytes| STANDARD.encode(bytes).into());
    }
    if user.token.as_ref().is_some_and(|token| HeaderValue::from_bytes(token.as_bytes()).is_err()) {
        return refused("has a token with a line end or another control character", "write the token on one line");
    }
    auth.token = user.token.clone().or(id_token).map(Into::into);
    auth.token_file = path(&user.token_file);
    if let Some(username) = &user.username {
        if auth.token_file.is_some() {
            return refused("has both a tokenFile and a username", "remove one of them");
        }
        auth.token = None;
        auth.username = Some(username.clone());
        auth.password = Some(user.password.clone().unwrap_or_default().into());
    }
    let has_certificate = auth.client_certificate.is_some() || auth.client_certificate_data.is_some();
    let has_other = has_certificate || auth.token.is_some() || auth.token_file.is_some() || auth.username.is_some();
    // A program beside another credential never runs, so it needs no terminal.
    let surroundings = AccessSurroundings { has_terminal: surroundings.has_terminal || has_other };
    auth.exec = user.exec.as_ref().map(|exec| exec_config(exec, name, surroundings)).transpose()?;
    if !has_other && auth.exec.is_none() {
        let hint = "set token, tokenFile, client-certificate or exec of this user; requests would be anonymous without";
        return refused("has no credentials", hint);
    }
    Ok(())
}

fn exec_config(exec: &Exec, name: &str, surroundings: AccessSurroundings) -> Result<ExecConfig, Refusal> {
    let refused = |cause: &str, hint: &str| Err(Refusal::new(format!("exec of user {name:?} {cause}"), hint));
    let version = exec.api_version.clone().unwrap_or_default();
    if !EXEC_VERSIONS.contains(&&*version) {
        return refused("has an unknown apiVersion", "set it to client.authentication.k8s.io/v1");
    }
    let interactive_mode = match exec.interactive_mode.as_deref() {
        Some("Always") if !surroundings.has_terminal => {
            return refused(
                "has the interactiveMode Always, but this process has no terminal for it",
                "set it to IfAvailable",
            );
        }
        Some("Always") => ExecInteractiveMode::Always,
        Some("Never") => ExecInteractiveMode::Never,
        _ if surroundings.has_terminal => ExecInteractiveMode::IfAvailable,
        _ => ExecInteractiveMode::Never,
    };
    let variable = |(name, value): &(String, String)| {
        HashMap::from([("name".to_owned(), name.clone()), ("value".to_owned(), value.clone())])
    };
    Ok(ExecConfig {
        api_version: Some(version),
        command: exec.command.clone(),
        args: Some(exec.arguments.clone()),
        env: Some(exec.environment.iter().map(variable).collect()),
        install_hint: exec.install_hint.clone(),
        interactive_mode: Some(interactive_mode),
        provide_cluster_info: exec.provide_cluster_info,
        ..ExecConfig::default()
    })
}
