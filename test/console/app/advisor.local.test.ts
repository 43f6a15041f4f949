/** The view "Advisor" in a browser, with the samples of real traffic. */
import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { hasBrowser } from "./browser.ts";
import { called, policyOf } from "./changes.ts";
import { consoleSite } from "./console-site.ts";
import { tokens } from "./console-worker.ts";
import { axeViolations, colorsOf, horizontalOverflow } from "./page-checks.ts";

const policies = ["busy", "quiet", "other"].map((name) => ({
  name,
  match: { path: `/${name}` },
  key: ["ip"],
  limits: "100/minute",
}));

const button = (within: Page | Locator, name: string): Locator => within.getByRole("button", { name, exact: true });
const recommendation = (page: Page): Locator => page.getByRole("region", { name: "Recommendation" });
const viewOf = (policy: string, goal: string): string => `advisor?${new URLSearchParams({ policy, goal }).toString()}`;

const rateOfKey = "never let one key exceed 4 requests in a second";
const slider = (page: Page): Locator => page.getByRole("slider");

describe.skipIf(!hasBrowser)("the Advisor in Chromium, skipped unless it is installed", () => {
  const site = consoleSite({ policies });
  /** 30 clients send 2 requests each, and one client sends 40. */
  beforeAll(async () => {
    // Isolates report to the control plane every five seconds when a rule exists.
    await called(site.worker, "PATCH", "/policies/other", { limits: "90/minute", for: "1h" });
    const addresses = Array.from({ length: 30 }, (_, index) => `192.0.2.${index + 1}`);
    const greedy = Array.from({ length: 40 }, () => "198.51.100.7");
    const sent = [...addresses, ...addresses, ...greedy];
    await Promise.all(sent.map((address) => site.worker.request(address, "/busy")));
    // Isolates report only when they get requests.
    await vi.waitFor(
      async () => {
        await site.worker.request("192.0.2.1", "/other");
        expect(await samplesOf("busy")).toBe(sent.length);
      },
      { timeout: 60_000, interval: 500 },
    );
  });
  /** The requests that the control plane has stored as samples. */
  const samplesOf = async (policy: string): Promise<number> => {
    const url = new URL(`/_headgate/api/samples?policy=${policy}`, site.worker.siteUrl);
    const headers = { Authorization: `Bearer ${tokens.operator}` };
    const response = await fetch(url, { headers });
    const [header = "{}"] = (await response.text()).split("\n");
    return (JSON.parse(header) as { arrivals: number }).arrivals;
  };

  it("the Advisor recommends a limit for the goal in the link, shows the effect of other limits, and opens a policy change with the limit", async () => {
    const page = await site.open(viewOf("busy", rateOfKey));
    await recommendation(page)
      .getByText(/^Recommended: 4 per second, sliding-log, which denies [\d.]+ % of requests and [\d.]+ % of keys\.$/)
      .waitFor();
    expect(await recommendation(page).getByRole("button").allInnerTexts()).toEqual(["Use this limit"]);
    const text = (await recommendation(page).getByRole("heading").textContent()) ?? "";
    await page.getByRole("heading", { name: "Selected: 4 per second, sliding-log" }).waitFor();
    const share = /denies (.+?) of requests/.exec(text)?.[1] ?? "no share";
    expect((await page.locator(".try dd").first().textContent())?.startsWith(share)).toBe(true);
    expect(await page.getByRole("table", { name: "Candidates" }).isVisible()).toBe(false);
    await page.getByText(/^All \d+ candidates$/).click();
    await page.getByText(/^Based on all 31 keys with 100 requests in /).waitFor();
    expect(await page.getByRole("radio", { name: /^Never let one key exceed 4/ }).isChecked()).toBe(true);
    await expect.poll(() => colorsOf(page.locator(".plot canvas"))).toBeGreaterThan(4);
    await page.getByRole("table", { name: "Candidates" }).getByText("In effect now").waitFor();
    expect(await axeViolations(page)).toEqual([]);
    const denied = page.locator(".try dd").first();
    const before = await denied.textContent();
    await slider(page).focus();
    for (let presses = 0; presses < 3; presses++) await page.keyboard.press("ArrowLeft");
    await page.getByRole("heading", { name: "1 per second, sliding-log" }).waitFor();
    await expect.poll(() => denied.textContent()).not.toBe(before);
    expect(new URL(page.url()).searchParams.get("limit")).toBe("1");
    await page.reload();
    await page.getByRole("heading", { name: "1 per second, sliding-log" }).waitFor();
    await button(page, "Use the selected limit").click();
    const dialog = page.getByRole("dialog", { name: "Change the limits of busy" });
    expect(await dialog.getByRole("textbox", { name: "Limits" }).inputValue()).toBe("1/1s");
    await button(dialog, "Change the limits").click();
    await dialog.waitFor({ state: "hidden" });
    const { limits } = await policyOf(site.worker, "busy");
    expect(limits.value).toMatchObject([{ limit: 1, windowMs: 1_000, strategy: "sliding-log" }]);
    await page.getByText(/^All \d+ candidates$/).click();
    await page.getByText("In effect now: 1 per second, sliding-log").waitFor();
  });

  it("a goal in fields or in words changes the link, invalid text is refused, and the page says when a goal is out of reach or data are too few", async () => {
    const page = await site.open(viewOf("busy", "deny at most 0.1 % of requests"), { width: 320, theme: "dark" });
    await recommendation(page).getByText("Too few keys for this goal").waitFor();
    const rate = page.getByLabel("Requests per second at the origin");
    await rate.fill("1");
    await rate.press("Tab");
    await recommendation(page).getByText("1 per second, sliding-log for all keys together").waitFor();
    expect(new URL(page.url()).searchParams.get("goal")).toBe("protect the origin at 1 request per second");
    const words = page.getByLabel("In your own words");
    await words.fill("make it fast");
    await words.press("Enter");
    await page
      .getByRole("alert")
      .getByText(/^goal: expected .*got "make it fast"$/)
      .waitFor();
    await words.fill("Reject no more than 1 client in 2!");
    await words.press("Enter");
    await expect.poll(() => new URL(page.url()).searchParams.get("goal")).toBe("deny at most 1 key in 2");
    await recommendation(page)
      .getByText(/^Recommended: /)
      .waitFor();
    const outliers = page.getByRole("region", { name: "Keys that would be denied most" });
    await outliers.getByRole("link").first().waitFor();
    expect(await axeViolations(page)).toEqual([]);
    expect(await horizontalOverflow(page)).toBe(0);
    await outliers.getByRole("link").first().click();
    await page.getByRole("heading", { level: 1, name: "Keys" }).waitFor();
  });

  it("a policy without samples says why, the first samples appear without a reload, and a failed read of samples is repeated", async () => {
    const quiet = await site.open(viewOf("quiet", rateOfKey));
    await quiet.getByText(/^There is nothing to replay yet: policy quiet has counted no requests/).waitFor();
    expect(await axeViolations(quiet)).toEqual([]);
    await expect
      .poll(async () => {
        await site.worker.request("192.0.2.1", "/quiet");
        return quiet.getByText(/^Based on 1 key with /).count();
      })
      .toBe(1);
    const page = await site.open("policies?name=other", { allowed: [/status of 503/] });
    await page.route("**/api/samples?*", (call) =>
      call.fulfill({ status: 503, json: { detail: "The control plane does not answer." } }),
    );
    const links = page.getByRole("navigation", { name: "Pages of policy other" });
    await links.getByRole("link", { name: "Advisor" }).click();
    await page.getByRole("alert").getByText("The control plane does not answer.").waitFor();
    await page.unroute("**/api/samples?*");
    await button(page, "Try again").click();
    await page.getByText(/^Based on 1 key with /).waitFor();
  });
});
