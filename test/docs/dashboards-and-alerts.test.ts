/** The examples of docs/how-to/dashboards-and-alerts.md: the scrape configuration, the alerts and the export. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Alerts } from "../../src/control/object/alerts.ts";
import { exportedDoubles } from "../../src/control/object/observers.ts";
import { Tally } from "../../src/control/object/statistics-rows.ts";
import { configOf } from "../policy/parsed.ts";
import { beat, counts } from "../control/object/batches.ts";
import { promtool } from "../control/object/promtool.ts";
import { MemorySql } from "../fakes/memory-sql.ts";
import { pageBlock } from "./page-block.ts";
import { codesIn, readPage, rowsOf } from "./pages.ts";

const page = readPage("docs/how-to/dashboards-and-alerts.md");

it.skipIf(promtool === null)("promtool accepts the scrape configuration of the page", () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-scrape-"));
  try {
    const file = join(folder, "prometheus.yml");
    writeFileSync(file, pageBlock("how-to/dashboards-and-alerts", "yaml"));
    writeFileSync(join(folder, "headgate-token"), "a-token");
    writeFileSync(join(folder, "alerts.yml"), readFileSync("docs/operate/monitoring/alerts.yml", "utf8"));
    const { status, stdout, stderr } = spawnSync(promtool ?? "", ["check", "config", file], {
      encoding: "utf8",
    });
    expect({ status, output: status === 0 ? "" : stdout + stderr }).toEqual({
      status: 0,
      output: "",
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it("the page about dashboards and alerts lists every alert rule", () => {
  const rules = readFileSync("docs/operate/monitoring/alerts.yml", "utf8");
  const names = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  expect(rowsOf(page, "alert").map(([name]) => codesIn(name)[0])).toEqual(names);
});

it("the page about dashboards and alerts shows the body of an alert as it is sent", () => {
  const { sql } = new MemorySql();
  const settings = {
    webhook: new URL("https://hooks.example.com/"),
    secret: null,
    deniedShare: 0.2,
    keys: new Set<string>(),
  };
  const recent = new Tally();
  const login = counts({ outcomes: { allowed: 20, denied: 10 } });
  recent.add({ policies: { login }, originFailures: 0 });
  const nowMs = Date.UTC(2026, 10, 22, 18, 30);
  new Alerts(settings, sql).observe(beat([]), recent, nowMs);
  const [row] = sql.exec<{ body: string }>("SELECT body FROM alerts").toArray();
  const { body } = JSON.parse(row?.body ?? "") as { readonly body: string };
  const shown: unknown = JSON.parse(pageBlock("how-to/dashboards-and-alerts", "json"));
  expect(JSON.parse(body)).toEqual(shown);
});

it("the page about dashboards and alerts shows a valid list of admin tokens", () => {
  const [, value = ""] =
    /^ADMIN_TOKENS='(.*)'\n$/.exec(pageBlock("how-to/dashboards-and-alerts", "text figure", "ADMIN_TOKENS=")) ?? [];
  const { admin } = configOf({ ADMIN_TOKENS: value });
  expect(admin?.tokens.map(({ name, may }) => [name, [...may]])).toEqual([
    ["alice", ["read", "write", "reveal"]],
    ["prometheus", ["read"]],
  ]);
});

it("the page about dashboards and alerts lists the doubles of a data point, and its query reads the doubles that it names", () => {
  const cells = rowsOf(page, "column").flatMap(([left, first, right, second]) => [
    [codesIn(left)[0], codesIn(first)[0]],
    [codesIn(right)[0], codesIn(second)[0]],
  ]);
  const listed = new Map(cells.flatMap(([column = "", name = ""]) => [[column, name] as const]));
  listed.delete("blob1");
  expect(listed).toEqual(
    new Map(
      exportedDoubles
        .map((name, index) => [`double${index + 1}`, name] as const)
        .toSorted(([one], [other]) => [...listed.keys()].indexOf(one) - [...listed.keys()].indexOf(other)),
    ),
  );
  const query = pageBlock("how-to/dashboards-and-alerts", "sql");
  const summed = [...query.matchAll(/SUM\((double\d+) \* _sample_interval\) AS (\w+)/g)];
  expect(summed.map(([, column = ""]) => listed.get(column))).toEqual(summed.map(([, , name]) => name));
  expect(summed).not.toHaveLength(0);
});
