// Asking the server: with the token of the address, the newest question first, and refusals in words.

const kept = new URLSearchParams(location.hash.slice(1)).get("token");
if (kept) {
  sessionStorage.setItem("token", kept);
  history.replaceState(null, "", location.pathname);
}

export async function ask(path, { query = {}, body, type } = {}) {
  const headers = type ? { "content-type": type } : {};
  const token = sessionStorage.getItem("token");
  if (token) headers.authorization = `Bearer ${token}`;
  const address = `${path}?${new URLSearchParams(query)}`;
  let reply;
  try {
    reply = await fetch(address, { method: body === undefined ? "GET" : "POST", headers, body });
  } catch {
    throw new Error("The server does not answer; is it still running?");
  }
  const content = await reply.json().catch(() => ({ error: `The server answered ${reply.status} without words.` }));
  if (!reply.ok) throw Object.assign(new Error(content.error), { status: reply.status });
  return content;
}

// At most one call at a time; of those that come meanwhile only the last is made, with the state of then.
export function newest(work) {
  let running = false;
  let again = false;
  return async function call() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        await work();
      } while (again);
    } finally {
      running = false;
    }
  };
}

const trouble = document.getElementById("trouble");

export function complain(error) {
  trouble.textContent = error ? error.message : "";
  trouble.hidden = !error;
}

const spoken = document.getElementById("spoken");
let waiting;

// For screen readers: only what still holds after a moment, or a stroke would be a flood of words.
export function say(words) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (spoken.textContent !== words) spoken.textContent = words; }, 600);
}
