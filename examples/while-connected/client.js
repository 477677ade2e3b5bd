// Works only while this process leads, beside `hustings sidecar --while-connected`.
const http = require("node:http");
const readline = require("node:readline");

const sidecar = process.env.SIDECAR ?? "http://127.0.0.1:4040";
// The lease duration minus the renew deadline: after a longer silence another replica may lead.
const silence = Number(process.env.SILENCE ?? "5") * 1000;

function stand() {
  let event, worker;
  const stop = (error) => {
    if (worker) console.log("stopped");
    clearInterval(worker);
    worker = undefined;
    // Closes the connection: that is how the sidecar learns that the work has ended.
    request.destroy(error);
  };
  const request = http.get(`${sidecar}/term`, { agent: false }, (stream) => {
    if (stream.statusCode !== 200) return stop(new Error(stream.statusMessage));
    stream.on("close", () => stop());
    readline.createInterface({ input: stream }).on("error", () => {}).on("line", (line) => {
      const [field, value] = line.split(/: (.*)/);
      if (field === "event") event = value;
      if (field !== "data") return;
      if (event !== "leading") return stop(); // stopping
      const { token } = JSON.parse(value);
      worker = setInterval(() => console.log(`working, token ${token}`), 100);
    });
  });
  request.setTimeout(silence, () => stop(new Error("the sidecar is silent")));
  request.on("error", (error) => console.log(`disconnected: ${error.message}`));
  request.on("close", () => setTimeout(stand, 1000));
}

stand();
