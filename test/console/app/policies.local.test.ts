/** The view "Policies" in a browser, with real traffic and a second operator. */
import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import type { PolicyView } from "../../../src/admin/wire.ts";
import { hasBrowser } from "./browser.ts";
import { addSecondOperator, called, policyOf, rulesOf, sampledArrivals, second } from "./changes.ts";
import { consoleSite } from "./console-site.ts";
import { tokens } from "./console-worker.ts";
import { axeViolations, colorsOf, focused, horizontalOverflow } from "./page-checks.ts";

/** Each test has its own policy, which allows each address 2 requests an hour. */
const names = "dry typed lists both merged lost keyboard links halved sampled listed counted".split(" ");
const policies = names.map((name) => ({
  name,
  match: { path: `/${name}` },
  key: ["ip"],
  limits: name === "halved" ? "6/hour" : "2/hour",
}));

const row = (page: Page, name: string): Locator =>
  page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
const part = (page: Page, name: string): Locator => page.getByRole("region", { name, exact: true });
const button = (within: Page | Locator, name: string): Locator => within.getByRole("button", { name, exact: true });
const undoButton = (page: Page, text: string): Locator =>
  page.getByLabel("Messages").getByRole("button", { name: `Undo: ${text}` });

describe.skipIf(!hasBrowser)("policies in Chromium, skipped unless it is installed", () => {
  const site = consoleSite({ policies });
  beforeAll(() => addSecondOperator(site.worker));
  const status = (name: string): Promise<number> => site.worker.request("192.0.2.1", `/${name}`);

  it("a dry run takes effect on traffic, its numbers appear next to the switch, and undo enforces the limits again", async () => {
    await Promise.all([status("dry"), status("dry")]);
    expect(await status("dry")).toBe(429);
    const page = await site.open("policies?name=dry");
    const mode = part(page, "Mode");
    await mode.getByText("3 requests in the last hour, 1 (33 %) denied.").waitFor();
    await button(mode, "dry-run").click();
    const dialog = page.getByRole("dialog", { name: "Set the mode of dry to dry-run" });
    const effect = dialog.getByRole("region", { name: "Effect" });
    const states = effect.getByRole("definition");
    expect(await states.nth(1).textContent()).toBe("enforce, from the configuration");
    expect(await states.nth(3).textContent()).toBe("enforce, from the configuration");
    await effect.getByText(/^dry-run: requests that exceed the limits are allowed/).waitFor();
    await effect.getByText("Policy dry: 3 requests in the last hour").waitFor();
    await dialog.getByLabel(/^Note/).fill("Watch the limit");
    expect(await axeViolations(page)).toEqual([]);
    await button(dialog, "Set to dry-run").click();
    await dialog.waitFor({ state: "hidden" });
    await expect.poll(() => status("dry")).toBe(200);
    await mode.getByText(/from a rule by operator, 59 min/).waitFor();
    await mode.getByText(/[1-9]\d* (requests? |\(\d+ %\) )would have been denied/).waitFor();
    await undoButton(page, "Policy dry: mode dry-run.").click();
    await expect.poll(() => status("dry")).toBe(429);
    expect(await rulesOf(site.worker, "dry")).toEqual([]);
  });

  it("the button of the configured mode removes the rule that overrides the mode, and its preview says so", async () => {
    await called(site.worker, "PATCH", "/policies/dry", { mode: "off", for: "2h" });
    const page = await site.open("policies?name=dry");
    await part(page, "Mode").getByText("Configured mode: enforce").waitFor();
    await button(part(page, "Mode"), "enforce").click();
    const dialog = page.getByRole("dialog", { name: "Set the mode of dry to enforce" });
    await dialog.getByText(/^enforce, from the configuration: requests that exceed/).waitFor();
    await dialog.getByText("This removes the rule by operator: mode off.").waitFor();
    expect(await dialog.getByLabel("For how long").count()).toBe(0);
    await button(dialog, "Set to enforce").click();
    await dialog.waitFor({ state: "hidden" });
    expect(await rulesOf(site.worker, "dry")).toEqual([]);
    await undoButton(page, "Policy dry: mode enforce, from the configuration.").click();
    await expect.poll(() => rulesOf(site.worker, "dry")).toHaveLength(1);
  });

  it("limits are edited as JSON, invalid text cannot be confirmed, and undo restores the previous rule with its end and note", async () => {
    const former = { limits: "3/hour", for: "2h", note: "More for the test" };
    await called(site.worker, "PATCH", "/policies/typed", former);
    const before = await rulesOf(site.worker, "typed");
    const page = await site.open("policies?name=typed");
    await button(part(page, "Limits"), "Change the limits").click();
    const dialog = page.getByRole("dialog");
    const field = dialog.getByRole("textbox", { name: "Limits" });
    expect(await field.inputValue()).toBe("3/hour");
    await field.fill("10 parsecs");
    await dialog.getByText(/expected limits such as .*, got "10 parsecs"$/).waitFor();
    expect(await button(dialog, "Change the limits").isDisabled()).toBe(true);
    await field.fill('[{"limit": 50, "window": "1m"}]');
    await dialog.getByText("50 per minute, sliding-window-counter", { exact: true }).waitFor();
    await button(dialog, "Change the limits").click();
    await part(page, "Limits").getByText("At most 50 requests per minute (sliding-window-counter)").waitFor();
    const statuses = await Promise.all(Array.from({ length: 9 }, () => status("typed")));
    expect(statuses.filter((each) => each === 200)).toHaveLength(9);
    await undoButton(page, "Limits of policy typed: 50 per minute").click();
    await expect.poll(() => rulesOf(site.worker, "typed")).toEqual(before);
    // A dialog that opens before the page has read the undo would be refused.
    await part(page, "Limits").getByText("At most 3 requests per hour (sliding-window-counter)").waitFor();
    await button(part(page, "Limits"), "Use the configured limits again").click();
    await button(page.getByRole("dialog"), "Use the configuration").click();
    await part(page, "Limits").getByText("At most 2 requests per hour").waitFor();
    expect(await part(page, "Limits").getByText("from a rule").count()).toBe(0);
    expect(await rulesOf(site.worker, "typed")).toEqual([]);
  });

  it("deny entries need a note and deny at once, removing one entry keeps the others, and undo restores a removed rule", async () => {
    const page = await site.open("policies?name=lists");
    const deny = part(page, "Deny entries");
    await button(deny, "Add deny entries").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Entries" }).fill("192.0.2.1\n198.51.100.0/24");
    await button(dialog, "Add the entries").click();
    // The browser asks for the note.
    expect(await focused(page)).toMatch(/^textbox "Note/);
    await dialog.getByLabel("Note for the audit log (required)").fill("Scraper");
    await button(dialog, "Add the entries").click();
    await expect.poll(() => status("lists")).toBe(403);
    const [rule] = (await policyOf(site.worker, "lists")).rules;
    await button(deny, "Change: 2 deny entries: 192.0.2.1, 198.51.100.0/24").click();
    await page.getByRole("dialog").getByRole("textbox", { name: "Entries" }).fill("198.51.100.0/24");
    await page.getByRole("dialog").getByText("removed: 192.0.2.1.").waitFor();
    await button(page.getByRole("dialog"), "Change the entries").click();
    await expect.poll(() => status("lists")).toBe(200);
    const [changed] = (await policyOf(site.worker, "lists")).rules;
    expect(changed).toMatchObject({ entries: ["198.51.100.0/24"], expiresAt: rule?.expiresAt, note: "Scraper" });
    const before = await rulesOf(site.worker, "lists");
    await button(deny, "Remove: 1 deny entry: 198.51.100.0/24").click();
    await button(page.getByRole("dialog"), "Remove the rule").click();
    await deny.getByText("There are no deny entries.").waitFor();
    await undoButton(page, "Removed the rule").click();
    await expect.poll(() => rulesOf(site.worker, "lists")).toEqual(before);
  });

  it("the list shows each policy with its mode, limits, denials of the last hour and rules, and the page of a policy plots its requests with the changes of its rules", async () => {
    await Promise.all("listed listed listed counted counted counted counted".split(" ").map(status));
    await called(site.worker, "PATCH", "/policies/listed", { mode: "dry-run", for: "2h" });
    const page = await site.open("policies");
    const cells = (name: string): Promise<string[]> => row(page, name).getByRole("cell").allInnerTexts();
    await row(page, "counted").getByText("2 (50 %)").waitFor();
    const shownCells = (await cells("counted")).join(" | ");
    expect(shownCells).toBe("counted | enforce | 2 per hour, sliding-window-counter | 4 | 2 (50 %) |  | none");
    await row(page, "counted").getByRole("img", { name: "Denied by counted over time" }).waitFor();
    expect((await cells("listed"))[1]).toMatch(/^dry-run from a rule by operator, (?:2 h|1 h 59 min(?: \d+ s)?) left/);
    expect((await cells("listed")).at(-1)).toBe("1 rule");
    expect(await page.getByText("from the configuration").count()).toBe(0);
    await button(page, "Denied").click();
    const deniedCells = await page.locator('td[data-title="Denied"]').allInnerTexts();
    const denials = deniedCells.map((text) => Number.parseInt(text, 10));
    expect(denials).toEqual(denials.toSorted((one, other) => other - one));
    expect(await axeViolations(page)).toEqual([]);
    await page.getByRole("link", { name: "listed", exact: true }).click();
    const plot = page.getByRole("img", { name: /^Requests per minute of policy listed\. Allowed 2, denied 1, / });
    await expect.poll(() => colorsOf(plot.locator("canvas"))).toBeGreaterThan(2);
    const marks = page.getByRole("list", { name: "Changes of rules" });
    await marks.getByRole("link", { name: /operator set the mode of policy listed to dry-run/ }).waitFor();
  });

  it("the page of a policy says what it does, from the requests that it matches to the answer of a denial", async () => {
    const page = await site.open("policies?name=links");
    await part(page, "Requests").getByText("The policy applies to all requests with the path /links.").waitFor();
    const titles = await page.locator(".described > section > h2").allInnerTexts();
    expect(titles.slice(0, 5)).toEqual(["Mode", "Requests", "Key", "Deny entries", "Allow entries"]);
    expect(titles.at(-1)).toBe("Answer to a denied request");
  });

  it("a change by another operator appears in the open dialog, and a refused confirmation keeps the typed text and is sent again only when the operator accepts the newer state", async () => {
    const page = await site.open("policies?name=both", { allowed: [/status of 412/] });
    await button(part(page, "Limits"), "Change the limits").click();
    const dialog = page.getByRole("dialog");
    const field = dialog.getByRole("textbox", { name: "Limits" });
    await field.fill("70/hour");
    await called(site.worker, "PATCH", "/policies/both", { limits: "30/hour" }, second.token);
    await dialog.getByText("second set the limits of policy both to 30/hour").waitFor();
    await dialog.getByText("2 per hour, sliding-window-counter – from the configuration").waitFor();
    await button(dialog, "Change the limits").click();
    const refusal = dialog.getByRole("alert");
    await refusal.getByText(/^Your change was not made/).waitFor();
    expect(await field.inputValue()).toBe("70/hour");
    await dialog.getByText(/^30 per hour, .+ from a rule by second, without an end$/).waitFor();
    expect((await policyOf(site.worker, "both")).limits.value).toMatchObject([{ limit: 30 }]);
    expect(await axeViolations(page)).toEqual([]);
    expect(await button(dialog, "Change the limits").isDisabled()).toBe(true);
    await dialog.getByLabel("Make this change to the newer state, which is shown above").check();
    await button(dialog, "Change the limits").click();
    await dialog.waitFor({ state: "hidden" });
    expect((await policyOf(site.worker, "both")).limits.value).toMatchObject([{ limit: 70 }]);
    await undoButton(page, "Limits of policy both").click();
    await expect.poll(async () => (await policyOf(site.worker, "both")).limits.value).toMatchObject([{ limit: 30 }]);
  });

  /** Confirms a dialog whose request arrives, but whose response is lost. */
  const confirmWithoutAnswer = async (page: Page, path: RegExp, confirm: string): Promise<void> => {
    const dialog = page.getByRole("dialog");
    await page.route(path, async (route) => {
      if (route.request().method() === "GET") return route.fallback();
      // Only the browser resolves the host of the console.
      await route.fetch({ url: route.request().url().replace("admin.localhost", "localhost") });
      return route.abort();
    });
    await button(dialog, confirm).click();
    await dialog.getByRole("alert").getByText("The Worker cannot be reached.").waitFor();
    await page.unroute(path);
  };

  it("a change whose response is lost succeeds when confirmed again, and its undo restores the previous state", async () => {
    const allowed = [/ERR_FAILED|^failed: /, /status of 4(?:04|12)/];
    const page = await site.open("policies?name=lost", { allowed });
    const dialog = page.getByRole("dialog");
    await button(part(page, "Mode"), "dry-run").click();
    await confirmWithoutAnswer(page, /api\/policies\/lost$/, "Set to dry-run");
    // The page has already read the result of the first attempt.
    await dialog.getByText("operator set the mode of policy lost to dry-run for 1 h").waitFor();
    await button(dialog, "Set to dry-run").click();
    await dialog.waitFor({ state: "hidden" });
    expect(await rulesOf(site.worker, "lost")).toHaveLength(1);
    await undoButton(page, "Policy lost: mode dry-run.").click();
    await expect.poll(() => rulesOf(site.worker, "lost")).toEqual([]);

    await button(part(page, "Deny entries"), "Add deny entries").click();
    await dialog.getByRole("textbox", { name: "Entries" }).fill("192.0.2.1");
    await dialog.getByLabel("Note for the audit log (required)").fill("Scraper");
    await confirmWithoutAnswer(page, /api\/rules$/, "Add the entries");
    await button(dialog, "Add the entries").click();
    await dialog.waitFor({ state: "hidden" });
    const before = await rulesOf(site.worker, "lost");
    expect(before).toHaveLength(1);

    await button(part(page, "Deny entries"), "Remove: 1 deny entry: 192.0.2.1").click();
    await confirmWithoutAnswer(page, /api\/rules\/[^/]+$/, "Remove the rule");
    await button(dialog, "Remove the rule").click();
    await dialog.waitFor({ state: "hidden" });
    expect(await rulesOf(site.worker, "lost")).toEqual([]);
    await undoButton(page, "Removed the rule").click();
    await expect.poll(() => rulesOf(site.worker, "lost")).toEqual(before);
  });

  it("entries that another operator adds to a rule are kept when the rule is edited at the same time", async () => {
    const content = { kind: "allow", entries: ["192.0.2.7", "192.0.2.8"] };
    const rule = await called<{ id: string }>(site.worker, "POST", "/rules", {
      policy: "merged",
      scope: "policy",
      ...content,
    });
    const page = await site.open("policies?name=merged");
    await button(part(page, "Allow entries"), "Change: 2 allow entries: 192.0.2.7, 192.0.2.8").click();
    const dialog = page.getByRole("dialog");
    const field = dialog.getByRole("textbox", { name: "Entries" });
    await field.fill("192.0.2.8\n192.0.2.9");
    const other = { kind: "allow", entries: ["192.0.2.7", "192.0.2.8", "192.0.2.99"] };
    await called(site.worker, "PUT", `/rules/${rule.id}`, other, second.token);
    await button(dialog, "Show the effect on the new state").click();
    expect(await field.inputValue()).toBe("192.0.2.8\n192.0.2.99\n192.0.2.9");
    expect(await button(dialog, "Change the entries").isDisabled()).toBe(true);
    await dialog.getByLabel("Make this change to the newer state, which is shown above").check();
    await button(dialog, "Change the entries").click();
    await dialog.waitFor({ state: "hidden" });
    const [changed] = (await policyOf(site.worker, "merged")).rules;
    expect(changed?.entries).toEqual(["192.0.2.8", "192.0.2.99", "192.0.2.9"]);
  });

  it("an operator turns a policy off and undoes this with the keyboard alone, and the focus returns to the switch", async () => {
    const page = await site.open("policies?name=keyboard");
    const off = button(part(page, "Mode"), "off");
    await off.waitFor();
    const tabTo = async (name: string): Promise<void> => {
      for (let steps = 0; steps < 40; steps++) {
        // oxlint-disable no-await-in-loop
        if ((await focused(page)).startsWith(`button "${name}"`)) return;
        await page.keyboard.press("Tab");
        // oxlint-enable no-await-in-loop
      }
      throw new Error(`expected Tab to reach the button "${name}"`);
    };
    await tabTo("off");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(await focused(page)).toBe('button "off"');
    // A closed dialog is hidden before the page has removed it.
    await expect.poll(() => page.locator("dialog").count()).toBe(0);
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await tabTo("Set to off");
    await page.keyboard.press("Enter");
    await expect.poll(async () => (await policyOf(site.worker, "keyboard")).mode.value).toBe("off");
    await undoButton(page, "Policy keyboard: mode off.").waitFor();
    await tabTo("Undo: Policy keyboard: mode off.");
    await page.keyboard.press("Enter");
    await expect.poll(() => rulesOf(site.worker, "keyboard")).toEqual([]);
  });

  it("before halving a limit, an operator sees which keys it would have denied, and can confirm without waiting for this result", async () => {
    const requests = async (address: string, count: number): Promise<void> => {
      const sent = Array.from({ length: count }, () => site.worker.request(address, "/halved"));
      expect(await Promise.all(sent)).toEqual(sent.map(() => 200));
    };
    await Promise.all([requests("192.0.2.31", 6), requests("192.0.2.32", 2)]);
    const page = await site.open("policies?name=halved", { width: 320 });
    const arrivals = (): Promise<number> => sampledArrivals(site.worker, "halved");
    await expect.poll(arrivals, { timeout: 30_000 }).toBe(8);
    await button(part(page, "Limits"), "Change the limits").click();
    const dialog = page.getByRole("dialog");
    const lastDay = dialog.getByRole("region", { name: "The last 24 hours" });
    await lastDay.getByText("Then: 0 of 8 requests denied. Now: 0.").waitFor();
    const field = dialog.getByRole("textbox", { name: "Limits" });
    await field.fill("3/hour");
    await lastDay.getByText("Then: 3 of 8 requests denied, of 1 key. Now: 0.").waitFor();
    await lastDay.getByText("If no client retries: requests denied").first().waitFor();
    await field.fill("3/hou");
    await lastDay.getByText("The numbers appear once the limits are valid.").waitFor();
    expect(await lastDay.getByText(/requests denied/i).count()).toBe(0);
    await field.fill("3/hour");
    await lastDay.getByText("Then: 3 of 8 requests denied, of 1 key. Now: 0.").waitFor();
    const body = { policy: "halved", key: "192.0.2.31" };
    const { id } = await called<{ id: string }>(site.worker, "POST", "/keys/explain", body);
    // Table rows and cells that are stacked on a narrow screen have no roles.
    const affected = lastDay.getByRole("region", { name: "Keys affected most" }).locator("td");
    expect((await affected.allInnerTexts()).slice(1)).toEqual(["6", "75 %", "0", "3"]);
    const link = affected.getByRole("link");
    expect(await link.getAttribute("href")).toBe(`./keys?policy=halved&id=${id}`);
    await link.getByText("ip=192.0.2.31").waitFor();
    expect(await colorsOf(lastDay.locator("canvas"))).toBeGreaterThan(2);
    expect(await axeViolations(page)).toEqual([]);
    expect(await horizontalOverflow(page)).toBe(0);
    await button(dialog, "Change the limits").click();
    await dialog.waitFor({ state: "hidden" });
    expect((await policyOf(site.worker, "halved")).limits.value).toMatchObject([{ limit: 3 }]);
  });

  it("a dry run shows the denials that it observed, those of a replay, and those that its enforcement would have caused", async () => {
    await called(site.worker, "PATCH", "/policies/halved", { mode: "dry-run", limits: "1/hour" });
    const page = await site.open("policies?name=halved");
    const denied = async (): Promise<string> => {
      expect(await site.worker.request("192.0.2.33", "/halved")).toBe(200);
      return String((await site.worker.api("GET", "/samples?policy=halved")).body);
    };
    await expect.poll(denied, { timeout: 30_000 }).toMatch(/dry-run-denied/);
    await page.reload();
    const numbers = part(page, "Denied in the last 24 hours");
    await numbers.getByRole("columnheader", { name: "Observed" }).waitFor();
    await part(page, "Dry run")
      .getByText(/^Observed of all keys, sampled or not: \d+ of/)
      .waitFor();
    await button(part(page, "Mode"), "enforce").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/^Then: [1-9]\d* of \d+ requests denied, of \d keys?\. Now: 0\.$/).waitFor();
    expect(await axeViolations(page)).toEqual([]);
  });

  it("the playground runs the last 24 hours of a policy in its lanes, and its link does not contain this traffic", async () => {
    await Promise.all([status("sampled"), status("sampled")]);
    expect(await status("sampled")).toBe(429);
    const page = await site.open("playground?limit=1/1h+sliding-log&traffic=log");
    await expect.poll(() => sampledArrivals(site.worker, "sampled"), { timeout: 30_000 }).toBe(3);
    await page.getByLabel("Sampled traffic of a policy").selectOption("sampled");
    await button(page, "Use the last 24 hours").click();
    await page.getByText(/^3 requests, decided by the engine for \d lanes$/).waitFor();
    await page.getByText("1 line read, 0 unreadable.").waitFor();
    await page.getByRole("img", { name: /^Sliding log: 1 requests? allowed, 2 denied/ }).waitFor();
    expect(page.url()).not.toContain("sampled");
  });

  it("a read-only operator sees what is in effect, and no buttons that change it", async () => {
    const page = await site.open("policies", { token: tokens.reader });
    await row(page, "links").getByText("2 per hour").waitFor();
    // The headings of the table sort it.
    expect(await page.locator("main button:not(.sort)").count()).toBe(0);
    await page.getByRole("link", { name: "links", exact: true }).click();
    await page.getByRole("heading", { name: "Policy links" }).waitFor();
    expect(await page.getByRole("main").getByRole("button").count()).toBe(0);
  });

  it("a rule that the configuration refuses causes a visible warning with the reason, and an unknown policy is named", async () => {
    await called(site.worker, "PATCH", "/policies/links", { mode: "dry-run", for: "1h" });
    const page = await site.open("policies?name=gone");
    await page.getByText("The configuration has no policy gone.").waitFor();
    const real = await called<{ policies: PolicyView[] }>(site.worker, "GET", "/policies");
    const refusedOf = ({ rules }: PolicyView) =>
      rules.map(({ id }) => ({ rule: id, reason: "mode: expected another" }));
    const changed = real.policies.map((policy) => ({ ...policy, refused: refusedOf(policy) }));
    await page.route("**/api/policies", (route) => route.fulfill({ json: { policies: changed } }));
    await page.goto(`${site.worker.consoleUrl}policies?name=links`);
    await page.getByText("A rule has no effect").waitFor();
    await page.getByText("The mode rule by operator: mode: expected another").waitFor();
  });

  it.each([
    ["light", 320],
    ["dark", 1_280],
  ] as const)("a link opens one policy without violations or overflow, in %s at %i px", async (theme, width) => {
    const page = await site.open("policies?name=both", { theme, width });
    await page.getByRole("heading", { level: 1, name: "Policy both" }).waitFor();
    expect(await axeViolations(page)).toEqual([]);
    expect(await horizontalOverflow(page)).toBe(0);
    await button(part(page, "Overrides"), "Add overrides").click();
    await page.getByRole("dialog").waitFor();
    expect(await axeViolations(page)).toEqual([]);
    expect(await horizontalOverflow(page)).toBe(0);
  });
});
