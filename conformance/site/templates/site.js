// Filters of the matrix, kept in the address.
for (const form of document.querySelectorAll("[data-filters]")) {
  const rows = [...document.querySelectorAll("#" + form.dataset.filters + " tbody tr")];
  const count = document.querySelector(`[data-count=${form.dataset.filters}]`);
  const show = () => {
    const chosen = [...new FormData(form)].filter(([, value]) => value);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !chosen.every(([key, value]) =>
        key === "q" ? row.textContent.toLowerCase().includes(value.toLowerCase()) : row.dataset[key] === value);
      shown += !row.hidden;
    }
    count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
    const query = new URLSearchParams(chosen).toString();
    history.replaceState(null, "", location.pathname + (query ? "?" + query : "") + location.hash);
  };
  for (const [key, value] of new URLSearchParams(location.search)) {
    if (form.elements[key]) form.elements[key].value = value;
  }
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
}

// Worked examples, a line at a time.
for (const list of document.querySelectorAll(".steps")) {
  const steps = [...list.children];
  const bar = document.createElement("p");
  bar.className = "stepper";
  let at = steps.length;
  const told = document.createElement("span");
  told.setAttribute("role", "status");
  const show = () => {
    const reads = at < steps.length ? steps[at].dataset.reads.split(" ") : [];
    steps.forEach((step, i) => {
      step.hidden = i > at;
      step.classList.toggle("now", i === at);
      step.classList.toggle("read", reads.includes(step.dataset.name));
    });
    told.textContent = at < steps.length ? `line ${at + 1} of ${steps.length}` : `all ${steps.length} lines`;
  };
  const button = (text, go) => {
    const one = document.createElement("button");
    one.type = "button";
    one.textContent = text;
    one.addEventListener("click", () => { at = go(); show(); });
    bar.append(one);
  };
  button("First line", () => 0);
  button("Back", () => Math.max(0, Math.min(at, steps.length) - 1));
  button("Next line", () => (at >= steps.length - 1 ? steps.length : at + 1));
  button("All", () => steps.length);
  bar.append(told);
  list.before(bar);
  show();
}

// Search.
const data = document.getElementById("index");
if (data) {
  const entries = JSON.parse(data.textContent);
  const input = document.getElementById("q");
  const hits = document.getElementById("hits");
  const MOST = 60;
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rank = ([, name, says]) => {
      const inName = words.every((word) => name.toLowerCase().includes(word));
      return name.toLowerCase() === words.join(" ") ? 0 : inName ? 1 : 2;
    };
    const found = words.length
      ? entries.filter((entry) => words.every((word) => entry.join(" ").toLowerCase().includes(word)))
          .sort((a, b) => rank(a) - rank(b) || a[1].length - b[1].length)
      : [];
    hits.replaceChildren(...found.slice(0, MOST).map(([kind, name, says, address]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = address;
      link.textContent = name;
      const what = document.createElement("span");
      what.className = "quiet";
      what.textContent = ` ${kind}: ${says}`;
      item.append(link, what);
      return item;
    }));
    const more = found.length > MOST ? `, the first ${MOST} are shown` : "";
    document.getElementById("found").textContent =
      words.length ? `${found.length} found${more}` : `${entries.length} names`;
    history.replaceState(null, "", location.pathname + (words.length ? "?q=" + encodeURIComponent(input.value) : ""));
  };
  input.value = new URLSearchParams(location.search).get("q") || "";
  input.addEventListener("input", show);
  input.form.addEventListener("submit", (event) => event.preventDefault());
  show();
}
