import type { Job } from "../api/client";
import { To } from "../shell/scope";
import { Status } from "../ui/Status";
import { Id, Name, Time } from "../ui/text";

/** A short list of jobs, as other pages have it. */
export function RecentJobs({ jobs }: { jobs: Job[] }) {
  return (
    <table className="rows">
      <thead><tr><th>status</th><th>type</th><th>job</th><th className="number wide-only">try</th><th className="number">created</th></tr></thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.id}>
            <td><Status status={job.status} /></td>
            <td><Name>{job.job_type}</Name></td>
            <td><To page={`jobs/${job.id}`} className="row-link"><Id id={job.id} /></To></td>
            <td className="number wide-only">{job.attempt_count}/{job.max_attempts}</td>
            <td className="number"><Time at={job.created_at} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
