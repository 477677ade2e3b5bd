// Works only while this process leads, according to `hustings sidecar --while-connected`.
//
// The process exits when it no longer leads, and the kubelet starts its container again. The kernel closes the connection
// when the process has ended, so no work is left when another replica leads.
const http = require("node:http");
const readline = require("node:readline");

const sidecar = process.env.SIDECAR ?? "http://127.0.0.1:4040";
// The lease duration minus the renew deadline: after a longer silence another replica may lead.
const silence = Number(process.env.SILENCE ?? "5") * 1000;

function work(token) {
  setInterval(() => console.log(`working, token ${token}`), 100);
}

function exit(reason) {
  console.error(reason);
  process.exit(1);
}

// Without a handler, the first process of a container ignores SIGTERM.
process.on("SIGTERM", () => process.exit());
const request = http.get(`${sidecar}/term`, { timeout: silence }, (stream) => {
  const lines = readline.createInterface({ input: stream });
  lines.on("line", (line) => {
    if (line.startsWith("data: ")) work(JSON.parse(line.slice("data: ".length)).token);
    else if (line.startsWith("event: ") && line !== "event: leading") exit(line);
  });
  lines.on("close", () => exit(`the stream has ended: ${stream.statusMessage}`));
});
request.on("timeout", () => exit("the sidecar is silent"));
request.on("error", (error) => exit(error.message));
