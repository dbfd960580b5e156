/** The pages of the rail, with the right that each one needs. */
export interface Place {
  page: string;
  name: string;
  key: string;
  needs: string;
  /** one of the five at the bottom of a phone */
  first?: boolean;
}

export const PAGES: Place[] = [
  { page: "", name: "Overview", key: "o", needs: "queue:read", first: true },
  { page: "queues", name: "Queues", key: "q", needs: "queue:read", first: true },
  { page: "jobs", name: "Jobs", key: "j", needs: "job:read", first: true },
  { page: "failures", name: "Failures", key: "f", needs: "job:read" },
  { page: "schedules", name: "Schedules", key: "s", needs: "job:read" },
  { page: "scaling", name: "Autoscaling", key: "u", needs: "queue:read" },
  { page: "alerts", name: "Alerts", key: "a", needs: "queue:read" },
  { page: "circuits", name: "Circuits", key: "b", needs: "queue:read" },
  { page: "workers", name: "Workers", key: "w", needs: "worker:read", first: true },
  { page: "assignments", name: "Assignments", key: "m", needs: "worker:read" },
  { page: "webhooks", name: "Webhooks", key: "h", needs: "project:write" },
  { page: "cluster", name: "Cluster", key: "c", needs: "worker:read" },
  { page: "settings", name: "Settings", key: ",", needs: "project:read" },
];
