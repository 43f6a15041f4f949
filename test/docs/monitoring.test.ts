/** The Grafana dashboard and the Prometheus alert rules use only existing metrics, and Prometheus accepts them. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { metricsText } from "../../src/control/object/metrics.ts";
import { exampleMetrics } from "../control/object/example-metrics.ts";
import { promtool } from "../control/object/promtool.ts";

const folder = "docs/operate/monitoring";
const temporary = mkdtempSync(join(tmpdir(), "headgate-monitoring-"));
afterAll(() => rmSync(temporary, { recursive: true }));

interface Target {
  readonly refId: string;
  readonly expr: string;
  readonly datasource: unknown;
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { x: number; y: number; w: number; h: number };
  readonly datasource: unknown;
  readonly targets: readonly Target[];
}

interface Dashboard {
  readonly title: string;
  readonly uid: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly templating: {
    readonly list: readonly { name: string; type: string; query: unknown; definition?: string }[];
  };
}

const dashboard = JSON.parse(readFileSync(`${folder}/grafana-dashboard.json`, "utf8")) as Dashboard;
const rules = readFileSync(`${folder}/alerts.yml`, "utf8");
const ruleExpressions = [...rules.matchAll(/^ +expr: (?:\|\n((?: {10}.*\n)+)|(.*)\n)/gm)].map(
  ([, block, line]) => block ?? line ?? "",
);

const expressions = [
  ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ...dashboard.annotations.list.map(({ expr }) => expr),
].map((expr) => expr.replaceAll("$policy", ".*").replaceAll("$__rate_interval", "5m"));

/** Metrics with their labels and label values, as a scrape of the example returns them. */
const exported = new Map<string, Map<string, Set<string>>>();
for (const [, name = "", labels = ""] of metricsText(exampleMetrics()).matchAll(/^(headgate_\w+)(?:\{(.*)\})? /gm)) {
  const known = exported.get(name) ?? new Map<string, Set<string>>();
  for (const [, label = "", value = ""] of labels.matchAll(/(\w+)="([^"]*)"/g)) {
    known.set(label, (known.get(label) ?? new Set()).add(value));
  }
  exported.set(name, known);
}

/** Labels that Prometheus adds to each scrape. */
const scrapeLabels = new Set(["instance", "job"]);

/** The metrics, labels and values in an expression that do not exist. */
function unknownIn(expression: string): string[] {
  const used = [...expression.matchAll(/\b(headgate_\w+)(?:\{([^}]*)\})?/g)];
  const metrics = used.flatMap(([, name = "", matchers = ""]) => {
    const labels = exported.get(name);
    if (labels === undefined) return [name];
    return [...matchers.matchAll(/(\w+)=~?"([^"]*)"/g)].flatMap(([, label = "", value = ""]) => {
      const values = labels.get(label);
      if (values === undefined) return [`${name}{${label}}`];
      const wanted = label === "policy" ? [] : value.split("|");
      return wanted.filter((each) => !values.has(each)).map((each) => `${label}="${each}"`);
    });
  });
  const grouped = [...expression.matchAll(/\b(?:by|on) \(([^)]*)\)/g)]
    .flatMap(([, labels = ""]) => labels.split(/,\s*/))
    .filter((label) => !scrapeLabels.has(label))
    .filter((label) => !used.some(([, name = ""]) => exported.get(name)?.has(label)));
  return used.length === 0 ? [`no metric in ${expression}`] : [...metrics, ...grouped];
}

it.each([...expressions, ...ruleExpressions])(
  "the expression %s uses metrics, labels and values that exist",
  (expression) => {
    expect(unknownIn(expression)).toEqual([]);
  },
);

it("the check of expressions finds unknown metrics, labels and values", () => {
  const wrong = 'sum by (key) (headgate_decisions_total{outcome="denid"}) + headgate_limit{mode="a"} + headgate_keys';
  expect(unknownIn(wrong)).toEqual(['outcome="denid"', "headgate_limit{mode}", "headgate_keys", "key"]);
});

it("every metric is on the dashboard or in an alert", () => {
  const all = [...expressions, ...ruleExpressions].join("\n");
  const unused = [...exported.keys()].filter((name) => !all.includes(name));
  expect(unused).toEqual([]);
});

describe("the dashboard", () => {
  it("the dashboard has the format of Grafana 10 or later, and a variable for the data source", () => {
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(38);
    expect([dashboard.title, dashboard.uid]).toEqual(["Headgate", "headgate"]);
    const [datasource, policy] = dashboard.templating.list;
    expect(datasource).toMatchObject({
      name: "datasource",
      type: "datasource",
      query: "prometheus",
    });
    expect(policy).toMatchObject({ name: "policy", type: "query" });
    expect(policy?.definition).toBe("label_values(headgate_decisions_total, policy)");
  });

  it("the panels of the dashboard have different ids and use the data source of the variable", () => {
    const source = { type: "prometheus", uid: "${datasource}" };
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { title, type, datasource, targets } of dashboard.panels) {
      expect(title).not.toBe("");
      expect(["timeseries", "stat"]).toContain(type);
      expect(datasource).toEqual(source);
      expect(targets.length).toBeGreaterThan(0);
      expect(targets.map((target) => target.datasource)).toEqual(targets.map(() => source));
      expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length);
    }
  });

  it("the panels of the dashboard lie within 24 columns and do not overlap", () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => [x + (cell % w), y + Math.floor(cell / w)]),
    );
    expect(Math.max(...cells.map(([column = 0]) => column))).toBeLessThan(24);
    expect(new Set(cells.map(String)).size).toBe(cells.length);
  });
});

function run(args: readonly string[], cwd = folder): string {
  const { status, stdout, stderr } = spawnSync(promtool ?? "", args, { cwd, encoding: "utf8" });
  return status === 0 ? "accepted" : stdout + stderr;
}

describe.skipIf(promtool === null)("promtool", () => {
  it("promtool accepts the alert rules", () => {
    expect(run(["check", "rules", "alerts.yml"])).toBe("accepted");
  });

  it("each alert fires only when its condition lasts", () => {
    expect(run(["test", "rules", "alerts.test.yml"])).toBe("accepted");
    const tests = readFileSync(`${folder}/alerts.test.yml`, "utf8");
    for (const [, alert = ""] of rules.matchAll(/- alert: (\w+)/g)) {
      const cases = [...tests.matchAll(new RegExp(`alertname: ${alert}\\n +exp_alerts:(.*)`, "g"))];
      expect(new Set(cases.map(([, expected = ""]) => expected.trim()))).toEqual(new Set(["[]", ""]));
    }
  });

  it("promtool parses every expression of the dashboard", () => {
    const groups = expressions.map((expr, index) => ({ record: `panel:${index}`, expr }));
    // JSON is valid YAML.
    writeFileSync(join(temporary, "rules.json"), JSON.stringify({ groups: [{ name: "dashboard", rules: groups }] }));
    expect(run(["check", "rules", "rules.json"], temporary)).toBe("accepted");
  });
});
