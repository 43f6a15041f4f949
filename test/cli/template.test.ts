/**
 * The repository as a template: Cloudflare's rules for deploy buttons and templates, from
 * https://developers.cloudflare.com/workers/platform/deploy-buttons/,
 * https://github.com/cloudflare/templates/blob/main/CONTRIBUTING.md and the checks in the folder `cli` of that
 * repository.
 */
import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { expect, it } from "vitest";
import { type Unstable_Config, unstable_readConfig } from "wrangler";
import { marked } from "marked";
import { hasLimits } from "../../src/policy/vars/policies.ts";
import { generatedSecrets } from "../../src/cli/configuration-source.ts";

interface PackageJson {
  readonly name: string;
  readonly description: string;
  readonly private: boolean;
  readonly repository: { readonly url: string };
  readonly scripts: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly engines: { readonly node: string };
  readonly cloudflare: {
    readonly label: string;
    readonly products: readonly string[];
    readonly categories: readonly string[];
    readonly preview_image_url: string;
    readonly preview_icon_url: string;
    readonly publish?: boolean;
    readonly bindings: Readonly<Record<string, { readonly description: string }>>;
  };
}

const read = (path: string): string => readFileSync(path, "utf8");
const manifest = JSON.parse(read("package.json")) as PackageJson;
const { cloudflare } = manifest;
const wrangler: Unstable_Config = unstable_readConfig({ config: "wrangler.toml" }, { hideWarnings: true });
const readme = read("README.md");
const buttonPage = read("docs/how-to/deploy-with-the-button.md");

const repositoryUrl = manifest.repository.url.replace(/^git\+|\.git$/g, "");
const rawUrl = repositoryUrl.replace("github.com", "raw.githubusercontent.com");

it("package.json has the metadata that templates need, and lets Cloudflare decide about publishing", () => {
  expect(manifest.name).toMatch(/^[a-z\d]+(?:-[a-z\d]+)*$/);
  expect(manifest.description).toMatch(/^[^\n]{20,120}$/);
  expect(manifest.private).toBe(true);
  expect(cloudflare.label).toMatch(/^[A-Z]\w*(?: [A-Z]\w*)*$/);
  expect(cloudflare.products.length).toBeLessThanOrEqual(3);
  expect(cloudflare.products).toContain("Durable Objects");
  expect(["starter", "storage", "ai"]).toEqual(expect.arrayContaining([...cloudflare.categories]));
  expect(cloudflare).not.toHaveProperty("publish");
});

it("the scripts that the form of the deploy button suggests and that templates need exist", () => {
  const { deploy, dev, start, build } = manifest.scripts;
  expect(deploy).toContain("src/cli/deploy.ts");
  expect([dev, start]).toEqual([start, start]);
  // The form suggests this script as the build command, so it must not need secrets or an account.
  expect(build).toContain("src/cli/build.ts package");
});

it("wrangler.toml has the settings that templates need, and the name in package.json", () => {
  expect(wrangler.name).toBe(manifest.name);
  expect(wrangler.compatibility_date).toMatch(/^20\d\d-\d\d-\d\d$/);
  expect(wrangler.observability?.enabled).toBe(true);
  expect(wrangler.upload_source_maps).toBe(true);
  expect(existsSync(wrangler.main ?? "")).toBe(true);
  // Placeholders of accounts, zones and resources in wrangler.toml would break the deployment of a copy.
  expect(wrangler.account_id).toBeUndefined();
  expect(wrangler.route ?? wrangler.routes).toBeUndefined();
});

it("the shipped configuration sets no limits and no ORIGIN, so a first deployment runs the demo", () => {
  expect(hasLimits(wrangler.vars)).toBe(false);
  expect(wrangler.vars).not.toHaveProperty("ORIGIN");
});

it("the form of the deploy button offers every required secret without a value, and npm run deploy can generate each", () => {
  const offered = parseEnv(read(".dev.vars.example"));
  expect(existsSync(".env.example")).toBe(false);
  expect(Object.keys(offered).toSorted()).toEqual(wrangler.secrets?.required?.toSorted());
  expect(new Set(Object.values(offered))).toEqual(new Set([""]));
  expect(generatedSecrets).toEqual(expect.arrayContaining(Object.keys(offered)));
});

it("every secret and binding has a description, and every description has a secret or binding", () => {
  const names = [
    ...(wrangler.secrets?.required ?? []),
    ...wrangler.durable_objects.bindings.map(({ name }) => name),
    wrangler.assets?.binding ?? "",
  ];
  expect(Object.keys(cloudflare.bindings).toSorted()).toEqual(names.toSorted());
  for (const { description } of Object.values(cloudflare.bindings)) {
    expect(description).toMatch(/^[A-Z].{20,250}\.$/);
    // The form renders code, bold and italic text and links, and shows all other Markdown unchanged.
    expect(description).not.toMatch(/[<>#\n]|!\[/);
  }
});

it("the README marks its part for the Cloudflare dashboard, which has no commands and no images", () => {
  const parts = readme.split(/^<!-- dash-content-(start|end) -->$/m);
  expect(parts.filter((_, index) => index % 2 === 1)).toEqual(["start", "end"]);
  const content = parts[2] ?? "";
  expect(content.length).toBeGreaterThan(500);
  const kinds = new Set<string>();
  void marked.walkTokens(marked.lexer(content), ({ type }) => void kinds.add(type));
  expect([...kinds]).toContain("list");
  for (const kind of ["code", "image", "html", "heading"]) expect([...kinds]).not.toContain(kind);
});

it("the deploy button and the create-cloudflare command use the repository address in package.json", () => {
  const button = `[![Deploy to Cloudflare](https://deploy.workers.cloudflare.com/button)](https://deploy.workers.cloudflare.com/?url=${repositoryUrl})`;
  expect(readme).toContain(button);
  expect(buttonPage).toContain(button);
  expect(buttonPage).toContain(`--template=${repositoryUrl}\n`);
  // The pattern with which create-cloudflare reads the address of a repository without a folder.
  expect(repositoryUrl).toMatch(/^https:\/\/github\.com\/[\w-]+\/[\w.-]+$/);
  // create-cloudflare would copy only these folders.
  expect([existsSync("js"), existsSync("ts")]).toEqual([false, false]);
});

it("the preview image is a PNG of 16:9 that is at least 500 pixels wide, and the icon is an SVG of 16:9", () => {
  const file = cloudflare.preview_image_url.replace(`${rawUrl}/main/`, "");
  const png = readFileSync(file);
  expect(png.subarray(0, 8).toString("latin1")).toBe("\u0089PNG\r\n\u001A\n");
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  expect(width).toBeGreaterThanOrEqual(500);
  expect(width / height).toBe(16 / 9);
  const icon = read(cloudflare.preview_icon_url.replace(`${rawUrl}/main/`, ""));
  const [, iconWidth, iconHeight] = /^<svg [^>]*viewBox="0 0 (\d+) (\d+)"/.exec(icon) ?? [];
  expect(Number(iconWidth) / Number(iconHeight)).toBe(16 / 9);
});

it("the lock file matches package.json, so that a build installs exact versions", () => {
  const { name, packages } = JSON.parse(read("package-lock.json")) as {
    name: string;
    packages: Record<string, Pick<PackageJson, "name" | "devDependencies">>;
  };
  expect(name).toBe(manifest.name);
  expect(packages[""]?.devDependencies).toEqual(manifest.devDependencies);
});

it("git ignores dependencies, wrangler's files and secrets, but not the example of secrets", () => {
  const ignored = read(".gitignore").split("\n");
  expect(ignored).toEqual(expect.arrayContaining(["node_modules/", ".wrangler/", ".dev.vars*", "!.dev.vars.example"]));
});
